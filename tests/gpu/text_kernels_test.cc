// Compares the kernels of transformers with ATen in float64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <vector>

#include "tests/gpu/gpu.h"
#include "tests/models/text_comparison.h"
#include "tests/roberta.h"
#include "trainer/device/cuda_plugin.h"

namespace dtrain {
namespace {

TEST(TextKernels, ValuesAndGradientsAreThoseOfAtenInDoublePrecision) {
  const at::Device gpu = Gpu();
  at::globalContext().setAllowTF32CuBLAS(false);
  at::manual_seed(1);
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const models::TextCase& c : models::TextCases()) {
      models::CompareText(c, type, *device::KernelsOn(gpu).text, gpu);
    }
  }
  // More rows than warps at once, which share them, or do not; the CPU takes seconds for each.
  for (const models::TextCase& c : {models::TextCase{20000, 96}, {3001, 1024}}) {
    models::CompareText(c, at::kBFloat16, *device::KernelsOn(gpu).text, gpu);
  }
}

TEST(TextKernels, EachRunHasTheSameBits) {
  const at::Device gpu = Gpu();
  const models::TextKernels kernels = models::WithTestRandom(*device::KernelsOn(gpu).text);
  const auto options = at::TensorOptions(gpu).dtype(at::kBFloat16);
  const at::Tensor x_values = at::randn({10001, 768}, options), dy = at::randn_like(x_values);
  const at::Tensor vector = at::ones({768}, at::TensorOptions(gpu));
  ExpectSameBits([&]() -> std::vector<at::Tensor> {
    const at::Tensor x = x_values.clone().requires_grad_(), b = vector.clone().requires_grad_();
    const at::Tensor weight = vector.clone().requires_grad_(), inner_bias = vector.clone().requires_grad_();
    const at::Tensor inner = models::UnitOf(kernels, models::LinearUnit::kGelu, x, inner_bias);
    const models::ResidualPair y = models::AddNormalised(
        kernels, inner, x, {.x_bias = b, .weight = weight, .bias = vector, .epsilon = 1e-5, .dropout = 0.1});
    torch::autograd::backward({y.main, y.shortcut}, {dy, dy});
    return {y.main.detach(), x.grad(), b.grad(), weight.grad(), inner_bias.grad()};
  });
}

// Dropout follows the generator of the GPU: its seed, and its state.
TEST(TextKernels, DropoutFollowsTheGenerator) {
  const at::Device gpu = Gpu();
  const models::TextKernels& kernels = *device::KernelsOn(gpu).text;
  const at::Tensor x = at::ones({64, 768}, at::TensorOptions(gpu)), zeros = at::zeros_like(x);
  const at::Tensor weight = at::ones({768}, x.options()), none = at::zeros({768}, x.options());
  const auto draw = [&] {
    return models::AddNormalised(kernels, x, zeros,
                                 {.x_bias = none, .weight = weight, .bias = none, .epsilon = 1e-5, .dropout = 0.3})
        .main.gt(0);
  };
  at::manual_seed(8);
  const at::Tensor first = draw(), second = draw();
  EXPECT_NEAR(first.to(at::kFloat).mean().item<double>(), 0.7, 0.01);
  EXPECT_NEAR(first.eq(second).to(at::kFloat).mean().item<double>(), 0.7 * 0.7 + 0.3 * 0.3, 0.01);
  at::manual_seed(8);
  EXPECT_TRUE(at::equal(draw(), first));
  at::Generator generator = at::globalContext().defaultGenerator(gpu);
  const at::Tensor state = generator.get_state();
  const at::Tensor third = draw();
  generator.set_state(state);
  EXPECT_TRUE(at::equal(draw(), third));
}

// A small model in training, so with dropout: the same seeds give the same loss, and checkpointed activations the same
// gradients.
TEST(TextKernels, CheckpointedActivationsGiveTheSameGradients) {
  const at::Device gpu = Gpu();
  const models::Sequences sequences =
      models::Padded(at::randint(4, 50, {6, 33}, at::kLong), {}, {.padding_id = 1, .first_position = 2}).To(gpu);
  std::vector<std::vector<at::Tensor>> gradients;
  for (const bool checkpointed : {false, true}) {
    at::manual_seed(1);
    models::RobertaForMaskedLM model(
        {{.vocab_size = 50, .hidden_size = 64, .longest_sequence = 38, .checkpoint_activations = checkpointed},
         /*layers=*/2,
         /*heads=*/2,
         /*intermediate_size=*/96});
    model.to(gpu);
    models::UseKernels(model, {.text = device::KernelsOn(gpu).text});
    model.Scores(model.Encode(sequences)).log_softmax(1).slice(1, 0, 1).sum().backward();
    gradients.emplace_back();
    for (const at::Tensor& parameter : model.parameters()) gradients.back().push_back(parameter.grad());
  }
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    EXPECT_TRUE(gradients[1][i].allclose(gradients[0][i], 1e-3, 1e-5)) << i;
  }
}

TEST(CrossEntropy, ValuesAndGradientsAreThoseOfAtenInDoublePrecision) {
  const at::Device gpu = Gpu();
  at::manual_seed(1);
  std::vector<models::LogitsCase> cases = models::LogitsCases();
  cases.push_back({1001, 50265, 50304, 2, 0});
  cases.push_back({20000, 61, 64, 2, 0});
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const models::LogitsCase& c : cases) {
      models::CompareCrossEntropy(c, type, *device::KernelsOn(gpu).text, gpu);
    }
  }
}

TEST(CrossEntropy, WhatIsNotFiniteIsSeen) {
  const at::Device gpu = Gpu();
  at::manual_seed(2);
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    models::CompareNonFiniteCrossEntropy(type, *device::KernelsOn(gpu).text, gpu);
  }
}

// More than 2³¹ logits.
TEST(CrossEntropy, LogitsMayBeMoreThanFitInto32Bits) {
  const at::Device gpu = Gpu();
  constexpr int64_t kRows = 43000, kColumns = 50304;
  const at::Tensor logits = at::zeros({kRows, kColumns}, at::TensorOptions(gpu).dtype(at::kBFloat16));
  const at::Tensor answers = at::arange(kRows, at::TensorOptions(gpu).dtype(at::kLong));
  const models::LossOfLogits result = models::KernelsLoss(*device::KernelsOn(gpu).text, logits, answers, 1);
  const double wanted = kRows * std::log(static_cast<double>(kColumns));
  EXPECT_NEAR(result.loss.item<double>(), wanted, 1e-5 * wanted);
  EXPECT_TRUE(result.dlogits.gather(1, answers.unsqueeze(1)).eq(-1).all().item<bool>());
  EXPECT_EQ(result.dlogits.lt(0).sum().item<int64_t>(), kRows);
}

TEST(CrossEntropy, EachRunHasTheSameBits) {
  const at::Device gpu = Gpu();
  const at::Tensor logits = at::randn({1000, 50304}, at::TensorOptions(gpu).dtype(at::kBFloat16));
  const at::Tensor answers = at::randint(50304, {1000}, at::TensorOptions(gpu).dtype(at::kLong));
  ExpectSameBits([&]() -> std::vector<at::Tensor> {
    const models::LossOfLogits result = models::KernelsLoss(*device::KernelsOn(gpu).text, logits, answers, 1);
    return {result.loss, result.dlogits};
  });
}

}  // namespace
}  // namespace dtrain
