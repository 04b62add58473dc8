// What holds for all optimizers, and what tests/interop, which compares trainings with timm's, torch's and fairseq's
// optimizers, does not see.
#include "trainer/optim/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "trainer/config/choices.h"
#include "trainer/errors.h"
#include "trainer/optim/parameter_update.h"

namespace dtrain::optim {
namespace {

using Parameters = std::vector<NamedTensor>;

constexpr double kDecay = 0.1;

Parameters SomeParameters() {
  at::manual_seed(3);
  Parameters parameters = {{"conv.weight", at::randn({8, 4, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast)},
                           {"bn.weight", at::randn({8})},
                           {"fc.weight", at::randn({10, 8})},
                           {"fc.bias", at::randn({10})}};
  for (auto& [name, tensor] : parameters) tensor.requires_grad_();
  return parameters;
}

void SetGradients(Parameters& parameters) {
  for (auto& [name, tensor] : parameters) tensor.mutable_grad() = at::randn_like(tensor.detach());
}

double SlowBackbone(const std::string& name) { return name.starts_with("fc.") ? 1 : 0.1; }

config::OptimizerConfig ConfigOf(const std::string& name, bool decay_all = true) {
  config::OptimizerConfig config;
  config.name = name;
  config.lars_trust = 0.02;
  config.weight_decay = kDecay;
  config.decay_norm_and_bias = decay_all;
  return config;
}

// All optimizers apply the factor to the rate, not to the gradient, so a step with a factor equals one at a lower rate.
TEST(SplitByRate, OfEveryOptimizerIsASmallerRate) {
  for (const config::OptimizerFacts& facts : config::Optimizers()) {
    Parameters slow = SomeParameters(), plain = SomeParameters();
    const auto ours = MakeOptimizer(ConfigOf(facts.name), slow, {.rate_factor = [](const auto&) { return 0.25; }});
    const auto theirs = MakeOptimizer(ConfigOf(facts.name), plain);
    for (int step = 0; step < 3; ++step) {
      SetGradients(slow);
      for (size_t i = 0; i < plain.size(); ++i) {
        plain[i].second.mutable_grad() = slow[i].second.grad().clone();
      }
      ours->Step(0.4);
      theirs->Step(0.1);
    }
    for (size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(at::equal(slow[i].second, plain[i].second)) << facts.name << " " << plain[i].first;
    }
  }
}

TEST(GroupByDecay, TreatsWhatIsNeverDecayedAsBiases) {
  const Parameters parameters = SomeParameters();
  const IsNeverDecayed is_never_decayed = [](std::string_view name) { return name.starts_with("conv."); };
  const auto groups = GroupByDecay(parameters, 0.1, /*decay_norm_and_bias=*/false, is_never_decayed);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].names, std::vector<std::string>{"fc.weight"});
  EXPECT_EQ(groups[1].names, (std::vector<std::string>{"conv.weight", "bn.weight", "fc.bias"}));
  EXPECT_EQ(GroupByDecay(parameters, 0.1, /*decay_norm_and_bias=*/true, is_never_decayed).size(), 1U);
  const auto but_biases = GroupByDecay(parameters, 0.1, true, nullptr, /*decay_bias=*/false);
  ASSERT_EQ(but_biases.size(), 2U);
  EXPECT_EQ(but_biases[0].names, (std::vector<std::string>{"conv.weight", "bn.weight", "fc.weight"}));
}

TEST(SplitByRate, KeepsTheDecayOfEachGroup) {
  Parameters parameters = SomeParameters();
  const std::vector<std::vector<std::string>> names = {{"conv.weight"}, {"fc.weight"}, {"bn.weight"}, {"fc.bias"}};
  for (const double backbone : {0.1, 10.}) {
    const auto groups = SplitByRate(GroupByDecay(parameters, 0.1, false),
                                    [&](const std::string& name) { return SlowBackbone(name) < 1 ? backbone : 1; });
    ASSERT_EQ(groups.size(), 4U);
    for (size_t i = 0; i < groups.size(); ++i) {
      EXPECT_EQ(groups[i].names, names[i]);
      EXPECT_EQ(groups[i].lr_factor, i % 2 == 0 ? backbone : 1);
      EXPECT_EQ(groups[i].weight_decay, i < 2 ? 0.1 : 0);
      EXPECT_EQ(groups[i].adapted, i < 2);
    }
  }
}

std::vector<std::unique_ptr<Optimizer>> OneOfEach(const Parameters& parameters) {
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  for (const bool decay_all : {true, false}) {
    for (const config::OptimizerFacts& facts : config::Optimizers()) {
      optimizers.push_back(MakeOptimizer(ConfigOf(facts.name, decay_all), parameters));
    }
  }
  return optimizers;
}

std::vector<at::Tensor> Copies(const Parameters& tensors) {
  std::vector<at::Tensor> copies;
  for (const auto& [name, tensor] : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

TEST(Optimizer, ASkippedStepLeavesParametersAndStateAsTheyAre) {
  Parameters parameters = SomeParameters();
  for (const auto& optimizer : OneOfEach(parameters)) {
    SetGradients(parameters);
    optimizer->Step(0.1, at::zeros({}));
    const auto before = Copies(parameters), state = Copies(optimizer->State());
    parameters[1].second.mutable_grad()[0] = std::numeric_limits<float>::infinity();
    optimizer->Step(0.1, at::ones({}));
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(parameters[i].second, before[i]));
    for (size_t i = 0; i < state.size(); ++i) {
      EXPECT_TRUE(at::equal(optimizer->State()[i].second, state[i])) << optimizer->State()[i].first;
    }
  }
}

// The rates are exact in float32, because others would be rounded on the device.
TEST(Optimizer, ARateOnTheDeviceIsTheSameNumber) {
  for (size_t which = 0; which < 2 * config::Optimizers().size(); ++which) {
    std::vector<std::vector<at::Tensor>> results;
    for (const bool on_device : {false, true}) {
      Parameters parameters = SomeParameters();
      const auto optimizers = OneOfEach(parameters);
      at::Tensor rate = at::zeros({});
      for (const double number : {0.25, 0.125, 0.0}) {
        SetGradients(parameters);
        rate.fill_(number);
        optimizers[which]->Step(on_device ? Rate(rate) : Rate(number));
      }
      results.push_back(Copies(parameters));
    }
    for (size_t i = 0; i < results[0].size(); ++i) EXPECT_TRUE(at::equal(results[0][i], results[1][i])) << which;
  }
}

// With weight decay and momentum, which would move the parameters. Without a gradient are one parameter of a group and
// all of another group.
TEST(Optimizer, ParametersWithoutGradientStayAsTheyAre) {
  Parameters parameters = SomeParameters();
  for (const auto& optimizer : OneOfEach(parameters)) {
    SetGradients(parameters);
    optimizer->Step(0.1);
    for (const size_t i : {1, 3}) parameters[i].second.mutable_grad().reset();
    const auto before = Copies(parameters);
    optimizer->Step(0.1);
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(at::equal(parameters[i].second, before[i]), i == 1 || i == 3) << parameters[i].first;
    }
  }
}

TEST(Optimizer, L2TermCountsWhatDecays) {
  const Parameters parameters = {{"w", at::full({2, 2}, 3.0)}, {"b", at::full({4}, 5.0)}};
  EXPECT_DOUBLE_EQ(MakeOptimizer(ConfigOf("sgd"), parameters)->L2Term(), kDecay / 2 * (36 + 100));
  EXPECT_DOUBLE_EQ(MakeOptimizer(ConfigOf("sgd", false), parameters)->L2Term(), kDecay / 2 * 36);
}

Parameters ZeroAndOnes() {
  return {{"zero.weight", at::zeros({4, 4}).requires_grad_()}, {"bn.weight", at::ones({8}).requires_grad_()}};
}

// A tensor without a norm has no ratio of norms, and one of a single dimension has one if it decays.
TEST(MakeOptimizer, AdaptsWhatHasANormAndDecays) {
  constexpr double kRate = 0.1;
  for (const bool decay_all : {true, false}) {
    Parameters parameters = ZeroAndOnes();
    const at::Tensor zero = parameters[0].second, norm = parameters[1].second, before = norm.detach().clone();
    SetGradients(parameters);
    MakeOptimizer(ConfigOf("lars", decay_all), parameters)->Step(kRate);
    EXPECT_TRUE(at::allclose(zero, -kRate * zero.grad()));
    at::Tensor step = norm.grad();
    if (decay_all) {
      const at::Tensor size = before.norm();
      step = (step + kDecay * before) * (0.02 * size / (norm.grad().norm() + kDecay * size));
    }
    EXPECT_TRUE(at::allclose(norm, before - kRate * step)) << decay_all;
  }
  const Parameters parameters = ZeroAndOnes();
  const at::Tensor zero = parameters[0].second;
  for (auto [name, tensor] : parameters) tensor.mutable_grad() = at::ones_like(tensor.detach());
  MakeOptimizer(ConfigOf("lamb", true), parameters)->Step(kRate);
  EXPECT_TRUE(at::allclose(zero, at::full_like(zero, -kRate)));
}

// Without having it made in memory.
TEST(Optimizer, TheBytesOfItsStateAreKnownBefore) {
  const Parameters parameters = SomeParameters();
  for (const config::OptimizerFacts& facts : config::Optimizers()) {
    for (const double momentum : {0.0, 0.9}) {
      config::OptimizerConfig config = ConfigOf(facts.name);
      config.momentum = momentum;
      int64_t bytes = 0;
      for (const auto& [name, tensor] : MakeOptimizer(config, parameters)->State()) {
        bytes += static_cast<int64_t>(tensor.nbytes());
      }
      EXPECT_EQ(OptimizerStateBytes(config, parameters), bytes) << facts.name << momentum;
    }
  }
  EXPECT_EQ(OptimizerStateBytes(ConfigOf("adamw"), parameters), 2 * 4 * (8 * 4 * 3 * 3 + 8 + 10 * 8 + 10) + 4);
  EXPECT_THROW(MakeOptimizer(ConfigOf("no_such_optimizer"), parameters), UsageError);
}

// The expected values are from clip_grad_norm_ of Python's torch 2.11, for a gradient of these two numbers.
TEST(GradientClip, HasTheBitsOfPythonsTorch) {
  struct ClipCase {
    float before[2];
    double max_norm;
    float after[2];
  };
  for (const ClipCase& tested :
       {ClipCase{{7.583847999572754F, 2.527949333190918F}, 0.86, {0x1.a1b966p-1F, 0x1.167b9ap-2F}},
        {{38.424957275390625F, 12.808319091796875F}, 0.33, {0x1.40944p-2F, 0x1.ab7056p-4F}},
        {{32.92805480957031F, 10.976018905639648F}, 0.81, {0x1.89701ep-1F, 0x1.064acp-2F}},
        {{12.209348678588867F, 4.069782733917236F}, 0.95, {0x1.cd7086p-1F, 0x1.33a058p-2F}}}) {
    std::vector<at::Tensor> gradients = {at::tensor({tested.before[0], tested.before[1]})};
    at::_foreach_mul_(gradients, ClipFactor(GradientNorm(gradients), tested.max_norm));
    EXPECT_EQ(gradients[0][0].item<float>(), tested.after[0]) << tested.max_norm;
    EXPECT_EQ(gradients[0][1].item<float>(), tested.after[1]) << tested.max_norm;
  }
}

}  // namespace
}  // namespace dtrain::optim
