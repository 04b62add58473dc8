// Compares the kernels of a language model's loss, a device's or their stand-ins on the CPU, with ATen in float64.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "models/cross_entropy.h"
#include "tests/models/norm_comparison.h"

namespace dtrain::models {

inline constexpr int64_t kIgnoredAnswer = -100;

struct LogitsCase {
  int64_t rows, words, columns;  // columns from `words` on are −∞
  double scale, mean;
};

// Fewer columns than a block's threads take at once and more, whole and not; more than one round of loads; large
// logits, whose exponentials are not finite.
inline std::vector<LogitsCase> LogitsCases() {
  return {{1, 8, 8, 1, 0},         {3, 61, 64, 1, 0},          {5, 4099, 4104, 3, 1},
          {4, 16391, 16448, 2, 0}, {2, 50265, 50304, 1, -200}, {7, 1000, 1024, 40, 300}};
}

struct LossOfLogits {
  at::Tensor loss, dlogits;
};

// Returns the loss and its gradient, times `scale`.
template <typename Loss>
LossOfLogits WithGradient(const at::Tensor& logits_values, double scale, const Loss& loss_of) {
  const at::Tensor logits = logits_values.detach().requires_grad_();
  const at::Tensor loss = loss_of(logits);
  (loss * scale).backward();
  return {loss.detach(), logits.grad()};
}

inline LossOfLogits AtenLoss(const at::Tensor& logits, const at::Tensor& answers, double scale) {
  return WithGradient(logits.cpu().to(at::kDouble), scale, [&](const at::Tensor& x) {
    return at::nll_loss(at::log_softmax(x, 1), answers.cpu(), {}, at::Reduction::Sum, kIgnoredAnswer);
  });
}

inline LossOfLogits KernelsLoss(const TextKernels& kernels, const at::Tensor& logits, const at::Tensor& answers,
                                double scale) {
  return WithGradient(logits, scale,
                      [&](const at::Tensor& x) { return CrossEntropySum(kernels, x, answers, kIgnoredAnswer); });
}

inline void CompareCrossEntropy(const LogitsCase& c, at::ScalarType type, const TextKernels& kernels,
                                at::Device device) {
  SCOPED_TRACE(testing::Message() << type << " " << c.rows << "x" << c.columns);
  at::Tensor logits = (at::randn({c.rows, c.columns}) * c.scale + c.mean).to(type);
  logits.slice(1, c.words).fill_(-std::numeric_limits<double>::infinity());
  at::Tensor answers = at::randint(c.words, {c.rows}, at::kLong);
  answers[0] = c.words - 1;
  if (c.rows > 2) answers[c.rows / 2] = kIgnoredAnswer;
  logits = logits.to(device);
  answers = answers.to(device);
  ASSERT_TRUE(HasCrossEntropyKernels(logits));
  constexpr double kScale = 0.37;
  const LossOfLogits wanted = AtenLoss(logits, answers, kScale);
  const LossOfLogits result = KernelsLoss(kernels, logits, answers, kScale);
  // A logit's rounding in float32 is an error of the loss and, relative, of the gradient.
  const double rounding = 1e-7 * logits.cpu().to(at::kDouble).slice(1, 0, c.words).abs().max().item<double>();
  EXPECT_EQ(result.loss.scalar_type(), at::kFloat);
  EXPECT_NEAR(result.loss.item<double>(), wanted.loss.item<double>(),
              2e-6 * wanted.loss.item<double>() + (2e-6 + 4 * rounding) * static_cast<double>(c.rows));
  EXPECT_EQ(result.dlogits.scalar_type(), type);
  EXPECT_LE(Distance(result.dlogits, wanted.dlogits), ToleranceOf(type) + 4 * rounding);
  EXPECT_TRUE(result.dlogits.slice(1, c.words).eq(0).all().item<bool>());
  EXPECT_TRUE(at::equal(result.dlogits[c.rows / 2].eq(0).all().cpu(), answers[c.rows / 2].eq(kIgnoredAnswer).cpu()));
}

// What is not finite: the step must be seen to fail, and where ATen's loss or gradient is finite, this one's is.
inline void CompareNonFiniteCrossEntropy(at::ScalarType type, const TextKernels& kernels, at::Device device) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
  const auto on = at::TensorOptions(device);
  const at::Tensor answers = at::tensor({int64_t{5}, int64_t{9}, int64_t{17}}, on.dtype(at::kLong));
  for (const double value : {kInfinity, kNaN, -kInfinity}) {
    for (const int64_t column : {9, 4000, 4095}) {  // the answer's and others'
      SCOPED_TRACE(testing::Message() << type << " " << value << " " << column);
      at::Tensor logits = at::randn({3, 4096}).to(type).to(device);
      logits[1][column] = value;
      const LossOfLogits wanted = AtenLoss(logits, answers, 1), result = KernelsLoss(kernels, logits, answers, 1);
      EXPECT_EQ(result.loss.isfinite().item<bool>(), wanted.loss.isfinite().item<bool>());
      EXPECT_TRUE(at::equal(result.dlogits.isnan().cpu(), wanted.dlogits.isnan()));
      EXPECT_EQ(result.dlogits[1].isnan().all().item<bool>(), value != -kInfinity);
      EXPECT_TRUE(result.dlogits[0].isfinite().all().item<bool>());
    }
  }
  const at::Tensor logits = at::randn({3, 64}).to(type).to(device);
  for (const int64_t wrong : {int64_t{64}, int64_t{-1}, int64_t{1} << 40}) {
    const at::Tensor with_wrong = at::tensor({wrong, int64_t{9}, int64_t{17}}, on.dtype(at::kLong));
    const LossOfLogits result = KernelsLoss(kernels, logits, with_wrong, 1);
    EXPECT_TRUE(result.loss.isnan().item<bool>()) << wrong;
    EXPECT_TRUE(result.dlogits[0].isnan().all().item<bool>()) << wrong;
    EXPECT_TRUE(result.dlogits[1].isfinite().all().item<bool>()) << wrong;
  }
  EXPECT_TRUE(KernelsLoss(kernels, at::full_like(logits, -kInfinity), answers, 1).loss.isnan().item<bool>());
  const LossOfLogits with_nan_gradient = KernelsLoss(kernels, logits, answers, kNaN);
  EXPECT_TRUE(with_nan_gradient.dlogits.isnan().all().item<bool>());
}

}  // namespace dtrain::models
