// Runs the kernels' threads in loops and compares with ATen in float64.
#include "models/cross_entropy.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/models/cross_entropy_comparison.h"
#include "tests/models/text_stand_in.h"

namespace dtrain::models {
namespace {

TEST(CrossEntropy, ValuesAndGradientsAreThoseOfAtenInDoublePrecision) {
  at::manual_seed(1);
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const LogitsCase& c : LogitsCases()) CompareCrossEntropy(c, type, stand_in::kTextKernels, at::kCPU);
  }
}

TEST(CrossEntropy, WhatIsNotFiniteIsSeen) {
  at::manual_seed(2);
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    CompareNonFiniteCrossEntropy(type, stand_in::kTextKernels, at::kCPU);
  }
}

TEST(CrossEntropy, RowsThatAreAllIgnoredHaveNeitherLossNorGradient) {
  const LossOfLogits result =
      KernelsLoss(stand_in::kTextKernels, at::randn({3, 64}), at::full({3}, kIgnoredAnswer, at::kLong), 1);
  EXPECT_EQ(result.loss.item<float>(), 0);
  EXPECT_TRUE(result.dlogits.eq(0).all().item<bool>());
}

TEST(CrossEntropy, SupportedLogits) {
  EXPECT_TRUE(HasCrossEntropyKernels(at::zeros({3, 8})));
  EXPECT_FALSE(HasCrossEntropyKernels(at::zeros({3, 12})));
  EXPECT_FALSE(HasCrossEntropyKernels(at::zeros({0, 8})));
  EXPECT_FALSE(HasCrossEntropyKernels(at::zeros({8})));
  EXPECT_FALSE(HasCrossEntropyKernels(at::zeros({3, 16}).slice(1, 0, 8)));
  EXPECT_FALSE(HasCrossEntropyKernels(at::zeros({25}).slice(0, 1).view({3, 8})));
  EXPECT_FALSE(HasCrossEntropyKernels(at::zeros({3, 8}, at::kDouble)));
  EXPECT_FALSE(HasCrossEntropyKernels(at::zeros({3, 8}, at::TensorOptions(at::kMeta))));
}

}  // namespace
}  // namespace dtrain::models
