// Compares twenty steps with those of torch::optim, and clipping with torch::nn::utils::clip_grad_norm_.
#include "trainer/optim/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <limits>
#include <tuple>

#include "trainer/optim/lamb.h"
#include "trainer/optim/lars.h"
#include "trainer/optim/parameter_update.h"
#include "trainer/optim/rmsprop_tf.h"

namespace dtrain::optim {
namespace {

struct Pair {
  std::vector<NamedTensor> ours;
  std::vector<at::Tensor> theirs;
};

Pair EqualParameters() {
  at::manual_seed(3);
  Pair pair;
  for (const auto& [name, shape] : std::vector<std::pair<std::string, std::vector<int64_t>>>{
           {"conv.weight", {8, 4, 3, 3}}, {"bn.weight", {8}}, {"fc.weight", {10, 8}}, {"fc.bias", {10}}}) {
    const at::Tensor value = at::randn(shape);
    at::Tensor own = value.clone();
    if (own.dim() == 4) own = own.contiguous(at::MemoryFormat::ChannelsLast);
    pair.ours.emplace_back(name, own.requires_grad_());
    pair.theirs.push_back(value.clone().requires_grad_());
  }
  return pair;
}

void SetEqualGradients(Pair& pair) {
  for (size_t i = 0; i < pair.theirs.size(); ++i) {
    const at::Tensor gradient = at::randn_like(pair.theirs[i]);
    pair.theirs[i].mutable_grad() = gradient;
    at::Tensor& own = pair.ours[i].second.mutable_grad();
    own = at::empty_like(pair.ours[i].second).copy_(gradient);
  }
}

void ExpectEqual(const Pair& pair) {
  for (size_t i = 0; i < pair.theirs.size(); ++i) {
    EXPECT_TRUE(at::allclose(pair.ours[i].second, pair.theirs[i], 1e-5, 1e-6)) << pair.ours[i].first;
  }
}

// Runs twenty steps of both optimizers, and compares the parameters.
template <typename TorchOptimizer, typename TorchOptions>
void ExpectTwentyEqualSteps(Pair& pair, Optimizer& ours, const TorchOptions& options, double weight_decay,
                            bool decay_norm_and_bias) {
  const auto with_decay = [&](double decay) {
    auto own = std::make_unique<TorchOptions>(options);
    own->weight_decay(decay);
    return own;
  };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<at::Tensor>{pair.theirs[0], pair.theirs[2]}, with_decay(weight_decay));
  groups.emplace_back(std::vector<at::Tensor>{pair.theirs[1], pair.theirs[3]},
                      with_decay(decay_norm_and_bias ? weight_decay : 0));
  TorchOptimizer theirs(groups, options);
  for (int step = 0; step < 20; ++step) {
    SetEqualGradients(pair);
    const double learning_rate = 0.1 / (1 + step);
    for (auto& group : theirs.param_groups()) static_cast<TorchOptions&>(group.options()).lr(learning_rate);
    ours.Step(learning_rate);
    theirs.step();
    ExpectEqual(pair);
  }
}

TEST(Sgd, StepsAreTorchs) {
  for (const auto& [momentum, nesterov, decay, all] : std::vector<std::tuple<double, bool, double, bool>>{
           {0.9, true, 1e-2, true}, {0.9, false, 1e-2, false}, {0, false, 0, true}}) {
    Pair pair = EqualParameters();
    Sgd ours(GroupByDecay(pair.ours, decay, all), {.momentum = momentum, .nesterov = nesterov});
    ExpectTwentyEqualSteps<torch::optim::SGD>(
        pair, ours, torch::optim::SGDOptions(0.1).momentum(momentum).nesterov(nesterov), decay, all);
  }
}

TEST(Adam, StepsAreTorchs) {
  for (const bool all : {true, false}) {
    Pair pair = EqualParameters();
    Adam ours(GroupByDecay(pair.ours, 1e-2, all), {.beta1 = 0.8, .beta2 = 0.98, .epsilon = 1e-6});
    ExpectTwentyEqualSteps<torch::optim::Adam>(pair, ours, torch::optim::AdamOptions(0.1).betas({0.8, 0.98}).eps(1e-6),
                                               1e-2, all);
  }
}

TEST(AdamW, StepsAreTorchs) {
  for (const bool all : {true, false}) {
    Pair pair = EqualParameters();
    Adam ours(GroupByDecay(pair.ours, 0.1, all), {.decoupled_weight_decay = true});
    ExpectTwentyEqualSteps<torch::optim::AdamW>(pair, ours, torch::optim::AdamWOptions(0.1), 0.1, all);
  }
}

double SlowBackbone(const std::string& name) { return name.starts_with("fc.") ? 1 : 0.1; }

// Compares --backbone_lr_factor with torch's parameter groups, each of which has its own rate in every step.
template <typename TorchOptimizer, typename TorchOptions>
void ExpectEqualStepsOfASlowBackbone(Optimizer& ours, Pair& pair, TorchOptions options) {
  constexpr double kFactor = 0.1;
  const std::vector<at::Tensor> backbone = {pair.theirs[0], pair.theirs[1]}, head = {pair.theirs[2], pair.theirs[3]};
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const auto& part : {backbone, head}) groups.emplace_back(part, std::make_unique<TorchOptions>(options));
  TorchOptimizer theirs(groups, options);
  for (int step = 0; step < 10; ++step) {
    SetEqualGradients(pair);
    const double rate = 0.1 / (1 + step);
    static_cast<TorchOptions&>(theirs.param_groups()[0].options()).lr(kFactor * rate);
    static_cast<TorchOptions&>(theirs.param_groups()[1].options()).lr(rate);
    if (step % 2 == 0) {
      ours.Step(rate);
    } else {
      ours.Step(at::full({}, rate, at::kFloat));  // as in recorded steps
    }
    theirs.step();
    ExpectEqual(pair);
  }
}

TEST(SplitByRate, StepsAreThoseOfTorchsParameterGroups) {
  Pair pair = EqualParameters();
  const auto groups = [&pair] { return SplitByRate(GroupByDecay(pair.ours, 0.01, true), SlowBackbone); };
  Sgd sgd(groups(), {.momentum = 0.9, .nesterov = true});
  ExpectEqualStepsOfASlowBackbone<torch::optim::SGD>(
      sgd, pair, torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01));
  pair = EqualParameters();
  Adam adam(groups(), {.decoupled_weight_decay = true});
  ExpectEqualStepsOfASlowBackbone<torch::optim::AdamW>(adam, pair, torch::optim::AdamWOptions(0.1).weight_decay(0.01));
}

// All optimizers apply the factor to the rate, not to the gradient, so a step with a factor equals one at a lower rate.
TEST(SplitByRate, OfEveryOptimizerIsASmallerRate) {
  for (int which = 0; which < 5; ++which) {
    Pair slow = EqualParameters(), plain = EqualParameters();
    const auto make = [which](std::vector<ParameterGroup> groups) -> std::unique_ptr<Optimizer> {
      if (which == 0) return std::make_unique<Sgd>(std::move(groups), SgdOptions{});
      if (which == 1) return std::make_unique<Adam>(std::move(groups), AdamOptions{});
      if (which == 2) return std::make_unique<Lars>(std::move(groups), LarsOptions{});
      if (which == 3) return std::make_unique<Lamb>(std::move(groups), LambOptions{});
      return std::make_unique<RmspropTf>(std::move(groups), RmspropTfOptions{});
    };
    const auto ours = make(SplitByRate(GroupByDecay(slow.ours, 0.1, true), [](const auto&) { return 0.25; }));
    const auto theirs = make(GroupByDecay(plain.ours, 0.1, true));
    for (int step = 0; step < 3; ++step) {
      SetEqualGradients(slow);
      for (size_t i = 0; i < plain.ours.size(); ++i) {
        plain.ours[i].second.mutable_grad() = slow.ours[i].second.grad().clone();
      }
      ours->Step(0.4);
      theirs->Step(0.1);
    }
    for (size_t i = 0; i < plain.ours.size(); ++i) {
      EXPECT_TRUE(at::equal(slow.ours[i].second, plain.ours[i].second)) << which << " " << plain.ours[i].first;
    }
  }
}

TEST(SplitByRate, KeepsTheDecayOfEachGroup) {
  Pair pair = EqualParameters();
  const auto groups = SplitByRate(GroupByDecay(pair.ours, 0.1, false), SlowBackbone);
  ASSERT_EQ(groups.size(), 4U);
  const std::vector<std::vector<std::string>> names = {{"conv.weight"}, {"fc.weight"}, {"bn.weight"}, {"fc.bias"}};
  for (size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ(groups[i].names, names[i]);
    EXPECT_EQ(groups[i].lr_factor, i % 2 == 0 ? 0.1 : 1);
    EXPECT_EQ(groups[i].weight_decay, i < 2 ? 0.1 : 0);
    EXPECT_EQ(groups[i].adapted, i < 2);
  }
}

std::vector<std::unique_ptr<Optimizer>> OneOfEach(const std::vector<NamedTensor>& parameters) {
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  optimizers.push_back(std::make_unique<Sgd>(GroupByDecay(parameters, 0.1, true), SgdOptions{}));
  optimizers.push_back(std::make_unique<Adam>(GroupByDecay(parameters, 0.1, true), AdamOptions{}));
  optimizers.push_back(
      std::make_unique<Adam>(GroupByDecay(parameters, 0.1, true),
                             AdamOptions{.decoupled_weight_decay = true, .epsilon_before_correction = true}));
  optimizers.push_back(std::make_unique<Lars>(GroupByDecay(parameters, 0.1, true), LarsOptions{}));
  optimizers.push_back(std::make_unique<Lamb>(GroupByDecay(parameters, 0.1, true), LambOptions{}));
  optimizers.push_back(std::make_unique<RmspropTf>(GroupByDecay(parameters, 0.1, true), RmspropTfOptions{}));
  return optimizers;
}

std::vector<at::Tensor> Copies(const std::vector<NamedTensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const auto& [name, tensor] : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

TEST(Optimizer, ASkippedStepLeavesParametersAndStateAsTheyAre) {
  Pair pair = EqualParameters();
  for (auto& optimizer : OneOfEach(pair.ours)) {
    SetEqualGradients(pair);
    optimizer->Step(0.1, at::zeros({}));
    const auto parameters = Copies(pair.ours), state = Copies(optimizer->State());
    pair.ours[1].second.mutable_grad()[0] = std::numeric_limits<float>::infinity();
    optimizer->Step(0.1, at::ones({}));
    for (size_t i = 0; i < parameters.size(); ++i) EXPECT_TRUE(at::equal(pair.ours[i].second, parameters[i]));
    for (size_t i = 0; i < state.size(); ++i) {
      EXPECT_TRUE(at::equal(optimizer->State()[i].second, state[i])) << optimizer->State()[i].first;
    }
  }
}

// The rates are exact in float32, because others would be rounded on the device.
TEST(Optimizer, ARateOnTheDeviceIsTheSameNumber) {
  for (const size_t which : {0, 1, 2, 3, 4, 5, 6}) {
    std::vector<std::vector<at::Tensor>> results;
    for (const bool on_device : {false, true}) {
      Pair pair = EqualParameters();
      auto optimizers = OneOfEach(pair.ours);
      optimizers.push_back(
          std::make_unique<Adam>(GroupByDecay(pair.ours, 0.1, false), AdamOptions{.decoupled_weight_decay = true}));
      at::Tensor rate = at::zeros({});
      for (const double number : {0.25, 0.125, 0.0}) {
        SetEqualGradients(pair);
        rate.fill_(number);
        optimizers[which]->Step(on_device ? Rate(rate) : Rate(number));
      }
      results.push_back(Copies(pair.ours));
    }
    for (size_t i = 0; i < results[0].size(); ++i) EXPECT_TRUE(at::equal(results[0][i], results[1][i])) << which;
  }
}

// With weight decay and momentum, which would move the parameters. Without a gradient are one parameter of a group and
// all of another group.
TEST(Optimizer, ParametersWithoutGradientStayAsTheyAre) {
  Pair pair = EqualParameters();
  auto optimizers = OneOfEach(pair.ours);
  optimizers.push_back(std::make_unique<Sgd>(GroupByDecay(pair.ours, 0.1, false), SgdOptions{}));
  for (auto& optimizer : optimizers) {
    SetEqualGradients(pair);
    optimizer->Step(0.1);
    for (const size_t i : {1, 3}) pair.ours[i].second.mutable_grad().reset();
    const auto before = Copies(pair.ours);
    optimizer->Step(0.1);
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(at::equal(pair.ours[i].second, before[i]), i == 1 || i == 3) << pair.ours[i].first;
    }
  }
}

TEST(Optimizer, L2TermCountsWhatDecays) {
  const std::vector<NamedTensor> parameters = {{"w", at::full({2, 2}, 3.0)}, {"b", at::full({4}, 5.0)}};
  EXPECT_DOUBLE_EQ(Sgd(GroupByDecay(parameters, 0.1, true), {}).L2Term(), 0.05 * (36 + 100));
  EXPECT_DOUBLE_EQ(Sgd(GroupByDecay(parameters, 0.1, false), {}).L2Term(), 0.05 * 36);
}

TEST(GradientClip, IsTorchs) {
  for (const double max_norm : {0.5, 1e6}) {
    Pair pair = EqualParameters();
    SetEqualGradients(pair);
    std::vector<at::Tensor> gradients;
    for (const auto& [name, parameter] : pair.ours) gradients.push_back(parameter.grad());
    const at::Tensor norm = GradientNorm(gradients);
    at::_foreach_mul_(gradients, ClipFactor(norm, max_norm));
    const double torch_norm = torch::nn::utils::clip_grad_norm_(pair.theirs, max_norm);
    EXPECT_NEAR(norm.item<double>(), torch_norm, 1e-4);
    for (size_t i = 0; i < gradients.size(); ++i) EXPECT_TRUE(at::allclose(gradients[i], pair.theirs[i].grad()));
  }
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
