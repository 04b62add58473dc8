// Compares the kernels of a language model's loss with ATen in float64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/gpu/gpu.h"
#include "tests/models/cross_entropy_comparison.h"
#include "trainer/device/cuda_plugin.h"

namespace dtrain {
namespace {

TEST(CrossEntropy, ValuesAndGradientsAreThoseOfAtenInDoublePrecision) {
  const at::Device gpu = Gpu();
  at::manual_seed(1);
  std::vector<models::LogitsCase> cases = models::LogitsCases();
  cases.push_back({1001, 50265, 50304, 2, 0});
  cases.push_back({20000, 61, 64, 2, 0});
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const models::LogitsCase& c : cases) {
      models::CompareCrossEntropy(c, type, *device::TextKernelsOn(gpu), gpu);
    }
  }
}

TEST(CrossEntropy, WhatIsNotFiniteIsSeen) {
  const at::Device gpu = Gpu();
  at::manual_seed(2);
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    models::CompareNonFiniteCrossEntropy(type, *device::TextKernelsOn(gpu), gpu);
  }
}

// More than 2³¹ logits.
TEST(CrossEntropy, LogitsMayBeMoreThanFitInto32Bits) {
  const at::Device gpu = Gpu();
  constexpr int64_t kRows = 43000, kColumns = 50304;
  const at::Tensor logits = at::zeros({kRows, kColumns}, at::TensorOptions(gpu).dtype(at::kBFloat16));
  const at::Tensor answers = at::arange(kRows, at::TensorOptions(gpu).dtype(at::kLong));
  const models::LossOfLogits result = models::KernelsLoss(*device::TextKernelsOn(gpu), logits, answers, 1);
  const double wanted = kRows * std::log(static_cast<double>(kColumns));
  EXPECT_NEAR(result.loss.item<double>(), wanted, 1e-5 * wanted);
  EXPECT_TRUE(result.dlogits.gather(1, answers.unsqueeze(1)).eq(-1).all().item<bool>());
  EXPECT_EQ(result.dlogits.lt(0).sum().item<int64_t>(), kRows);
}

TEST(CrossEntropy, EachRunHasTheSameBits) {
  const at::Device gpu = Gpu();
  const at::Tensor logits = at::randn({1000, 50304}, at::TensorOptions(gpu).dtype(at::kBFloat16));
  const at::Tensor answers = at::randint(50304, {1000}, at::TensorOptions(gpu).dtype(at::kLong));
  models::LossOfLogits first;
  for (int run = 0; run < 20; ++run) {
    const models::LossOfLogits result = models::KernelsLoss(*device::TextKernelsOn(gpu), logits, answers, 1);
    if (run == 0) first = result;
    EXPECT_TRUE(at::equal(result.loss, first.loss)) << run;
    EXPECT_TRUE(at::equal(result.dlogits, first.dlogits)) << run;
  }
}

}  // namespace
}  // namespace dtrain
