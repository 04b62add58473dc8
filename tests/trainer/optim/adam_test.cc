// Compares with torch::optim in float32, whose weights are rounded to half precision after each step. tests/interop
// compares with fairseq's formula.
#include "trainer/optim/optimizer.h"

#include <ATen/ATen.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <limits>
#include <map>

#include "tests/trainer/optim/adam_comparison.h"
#include "trainer/optim/parameter_update.h"

namespace dtrain::optim {
namespace {

constexpr double kScale = 4096;
const std::vector<std::vector<int64_t>> kShapes = {{40, 16}, {40}, {16, 40}, {3}};

struct HalfModel {
  std::vector<NamedTensor> parameters;

  HalfModel() {
    at::manual_seed(5);
    for (size_t i = 0; i < kShapes.size(); ++i) {
      parameters.emplace_back("w" + std::to_string(i), (at::randn(kShapes[i]) * 0.02).to(at::kHalf).requires_grad_());
    }
  }
  std::vector<at::Tensor> Gradients() const {
    std::vector<at::Tensor> gradients;
    for (const auto& [name, parameter] : parameters) gradients.push_back(parameter.grad());
    return gradients;
  }
};

// Returns the scaled gradient of a step: unscaled it is as small as in a large model, and of very unequal size.
at::Tensor Gradient(const at::Tensor& parameter, int64_t step) {
  const at::Tensor size = at::pow(10.0, at::rand_like(parameter, at::kFloat) * -4 - 3);
  return (at::randn_like(parameter, at::kFloat) * size * (step % 3 + 1) * kScale).to(at::kHalf);
}

config::OptimizerConfig AdamConfig(const std::string& name, double weight_decay) {
  return {.name = name, .lr = {}, .adam_betas = {0.9, 0.98}, .adam_eps = 1e-6, .weight_decay = weight_decay};
}

constexpr double kHalfDecay = 0.01;

template <typename TorchOptimizer, typename TorchOptions>
void ExpectEqualSteps(const std::string& name) {
  HalfModel model;
  std::vector<at::Tensor> reference;
  for (const auto& named : model.parameters) {
    reference.push_back(named.second.detach().to(at::kFloat).requires_grad_());
  }
  ParameterUpdate update(MakeOptimizer(AdamConfig(name, kHalfDecay), model.parameters),
                         LossScaler({.dynamic = false, .initial = kScale}, at::kCPU), /*clip_norm=*/0, at::kCPU);
  TorchOptimizer theirs(reference, TorchOptions(0).betas({0.9, 0.98}).eps(1e-6).weight_decay(kHalfDecay));
  for (int64_t step = 0; step < 20; ++step) {
    const double learning_rate = 1e-3 / static_cast<double>(1 + step);
    for (size_t i = 0; i < reference.size(); ++i) {
      at::Tensor parameter = model.parameters[i].second;
      parameter.mutable_grad() = Gradient(parameter, step);
      reference[i].mutable_grad() = parameter.grad().to(at::kFloat) / kScale;
    }
    update.Apply(model.Gradients(), learning_rate);
    static_cast<TorchOptions&>(theirs.param_groups()[0].options()).lr(learning_rate);
    theirs.step();
    at::NoGradGuard no_grad;
    for (at::Tensor& tensor : reference) tensor.copy_(tensor.to(at::kHalf));
  }
  for (size_t i = 0; i < reference.size(); ++i) {
    const at::Tensor ours = model.parameters[i].second.to(at::kFloat);
    // Some last bits differ, because the moments are rounded, too.
    EXPECT_TRUE(at::allclose(ours, reference[i], 3e-3, 3e-5)) << (ours - reference[i]).abs().max();
    EXPECT_LT((ours - reference[i]).abs().mean().item<double>(), 3e-6);
  }
}

TEST(MemoryEfficientAdam, StepsAsAdamInFloatDoes) {
  ExpectEqualSteps<torch::optim::Adam, torch::optim::AdamOptions>("adam");
  ExpectEqualSteps<torch::optim::AdamW, torch::optim::AdamWOptions>("adamw");
}

std::map<std::string, at::Tensor> CopyOf(const std::vector<NamedTensor>& tensors) {
  std::map<std::string, at::Tensor> copies;
  for (const auto& [name, tensor] : tensors) copies[name] = tensor.detach().clone();
  return copies;
}

void ExpectSameBits(const std::map<std::string, at::Tensor>& before, const std::vector<NamedTensor>& now) {
  for (const auto& [name, tensor] : now) EXPECT_TRUE(at::equal(before.at(name), tensor)) << name;
}

TEST(MemoryEfficientAdam, ASkippedStepChangesNoBit) {
  HalfModel model;
  const auto adam = MakeOptimizer(AdamConfig("adamw", 0.01), model.parameters);
  const auto step = [&](double factor, double skipped) {
    for (auto& [name, parameter] : model.parameters) parameter.mutable_grad() = Gradient(parameter, 1) * factor;
    adam->MultiplyGradientsBy(at::full({}, 1 / kScale, at::kFloat));
    adam->Step(1e-3, at::full({}, skipped, at::kFloat));
  };
  step(std::numeric_limits<double>::infinity(), 1);
  for (int i = 0; i < 3; ++i) step(1, 0);
  const auto weights = CopyOf(model.parameters), state = CopyOf(adam->State());
  for (const auto& [name, weight] : weights) EXPECT_TRUE(weight.isfinite().all().item<bool>()) << name;
  step(std::numeric_limits<double>::infinity(), 1);
  step(7, 1);
  ExpectSameBits(weights, model.parameters);
  ExpectSameBits(state, adam->State());
}

// A parameter without a gradient keeps its moments, although they are stored as fractions of other peaks afterwards.
TEST(MemoryEfficientAdam, PassesByWhatHasNoGradient) {
  for (const double others : {3.0, 1e-3}) {
    HalfModel model;
    const auto adam = MakeOptimizer(AdamConfig("adam", 0), model.parameters);
    const auto moment = [&adam] {
      const auto state = CopyOf(adam->State());
      return state.at("exp_avg.w0").to(at::kFloat) * state.at("peaks")[0][0];
    };
    for (auto& [name, parameter] : model.parameters) parameter.mutable_grad() = Gradient(parameter, 1);
    adam->Step(1e-3);
    const at::Tensor weight = model.parameters[0].second.detach().clone(), before = moment();
    model.parameters[0].second.mutable_grad().reset();
    for (size_t i = 1; i < model.parameters.size(); ++i) model.parameters[i].second.mutable_grad() *= others;
    adam->Step(1e-3);
    EXPECT_TRUE(at::equal(weight, model.parameters[0].second));
    EXPECT_TRUE(at::allclose(before, moment(), 2e-3, 1e-4 * before.abs().max().item<double>()));
  }
}

// The norm and the clipping use the unscaled gradients; the scaled norm would exceed half precision.
TEST(MemoryEfficientAdam, GradientsAreClippedUnscaled) {
  at::Tensor weight = at::zeros({64, 64}, at::kHalf).requires_grad_();
  ParameterUpdate update(MakeOptimizer(AdamConfig("adam", 0), {{"w", weight}}),
                         LossScaler({.initial = 16384}, at::kCPU),
                         /*clip_norm=*/1, at::kCPU);
  weight.mutable_grad() = at::full({64, 64}, 32768.0, at::kHalf);  // unscaled 2, norm 128
  update.Apply({weight.grad()}, 1e-3, at::full({}, 0.5f));
  EXPECT_NEAR(update.gradient_norm(), 64, 1e-3);
  EXPECT_EQ(update.skipped_in_a_row(), 0);
  const auto state = CopyOf(update.State());
  const double average = state.at("exp_avg.w")[0][0].item<double>() * state.at("peaks")[0][0].item<double>() / 65000;
  EXPECT_NEAR(average, 0.1 / 64, 1e-5);
  weight.mutable_grad() = at::full({64, 64}, std::numeric_limits<double>::infinity(), at::kHalf);
  update.Apply({weight.grad()}, 1e-3);
  EXPECT_EQ(update.skipped_in_a_row(), 1);
  EXPECT_EQ(*update.loss_scale(), 8192);
}

// Runs the threads of Adam's kernel in loops, to compare with ATen's kernel for the CPU.
template <typename Copy>
void RunThreads(const kernels::AdamArguments& arguments) {
  for (unsigned block = 0; block < arguments.first_block[arguments.count]; ++block) {
    for (int thread = 0; thread < kernels::kAdamThreads; ++thread) {
      kernels::AdamThread<Copy>(arguments, block, thread);
    }
  }
}

void AdamOnCpu(const kernels::AdamArguments& arguments, models::kernels::Element copies) {
  using models::kernels::Element;
  if (copies == Element::kFloat) return RunThreads<float>(arguments);
  if (copies == Element::kHalf) return RunThreads<c10::Half>(arguments);
  RunThreads<c10::BFloat16>(arguments);
}

// In float32, in which the kernel computes, 1 − 0.999 has lost some digits. ATen computes it otherwise on the CPU.
constexpr double kAdamTolerance = 5e-5;

TEST(AdamKernel, StepsAreAtens) {
  for (const config::OptimizerConfig& config : AdamCases()) {
    for (const at::ScalarType copies : {at::kFloat, at::kHalf, at::kBFloat16}) {
      SCOPED_TRACE(testing::Message() << config.name << copies);
      CompareAdam(config, copies, &AdamOnCpu, at::kCPU, kAdamTolerance);
    }
  }
}

}  // namespace
}  // namespace dtrain::optim
