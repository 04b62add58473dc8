// Compares the kernels of transformers, a device's or their stand-ins on the CPU, with ATen in float64.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <vector>

#include "models/text_kernels.h"
#include "tests/models/norm_comparison.h"

namespace dtrain::models {

// Random numbers that a test knows.
inline constexpr kernels::RandomState kTestRandom{.seed = 0x123456789ABCDEF0, .offset = 8};

inline TextKernels WithTestRandom(TextKernels kernels) {
  kernels.random = [] { return kTestRandom; };
  return kernels;
}

// Returns what dropout multiplies elements by with kTestRandom, in float64; with rows_of_sample, whole samples.
inline at::Tensor TestScales(int64_t rows, int64_t columns, double dropout, int64_t rows_of_sample = 0) {
  const kernels::RandomNumbers random(kTestRandom);
  const kernels::Dropout settings(dropout);
  std::vector<double> scales;
  for (int64_t at = 0; at < rows * columns; ++at) {
    const bool of_samples = rows_of_sample > 0;
    const int64_t group = of_samples ? at / columns / rows_of_sample : at / kernels::kWidth;
    const unsigned bits = KeptBits(random, group, settings.threshold) >> (of_samples ? 0 : at % kernels::kWidth);
    scales.push_back((bits & 1U) != 0 ? static_cast<double>(settings.scale) : 0.0);
  }
  return at::tensor(scales, at::kDouble).view({rows, columns});
}

struct TextCase {
  int64_t rows, columns;
};

// Many rows a warp, one, and many warps a row, full and not; one row, and more than the blocks of a test take at once.
inline std::vector<TextCase> TextCases() {
  return {{1, 8}, {2, 64}, {71, 40}, {29, 96}, {5, 256}, {37, 264}, {11, 768}, {13, 1024}, {3, 4096}};
}

// What a norm has around it; as in NormForm. kHead: nothing is added; kPixels: a bias alone.
enum class NormKind { kLayer, kEmbeddings, kFloatEmbeddings, kHead, kPixels };

inline void CompareAddNorm(const TextCase& c, at::ScalarType type, NormKind kind, double dropout, bool two_gradients,
                           const TextKernels& of_device, at::Device device) {
  SCOPED_TRACE(testing::Message() << type << " " << c.rows << "x" << c.columns << " kind " << static_cast<int>(kind)
                                  << " dropout " << dropout << " gradients " << 1 + two_gradients);
  const TextKernels kernels = WithTestRandom(of_device);
  const at::ScalarType added_type = kind == NormKind::kFloatEmbeddings ? at::kFloat : type;
  const auto values = [&](double scale) {
    return (at::randn({c.rows, c.columns}) * scale + 0.5).to(added_type).to(device).requires_grad_();
  };
  const auto vector = [&](double offset) {
    return (at::randn({c.columns}) * 0.3 + offset).to(device).requires_grad_();
  };
  const at::Tensor x = values(1), z = values(2), b = vector(0.2), weight = vector(1), bias = vector(0);
  const bool adds = kind != NormKind::kHead && kind != NormKind::kPixels, has_bias = kind != NormKind::kHead;
  std::vector<at::Tensor> inputs = {x, weight, bias};
  if (has_bias) inputs.push_back(b);
  if (adds) inputs.push_back(z);
  std::vector<at::Tensor> exact;
  for (const at::Tensor& input : inputs) exact.push_back(Exactly(input));
  const ResidualNorm norm{.x_bias = has_bias ? b : at::Tensor(),
                          .weight = weight,
                          .bias = bias,
                          .epsilon = kNormEpsilon,
                          .dropout = dropout};
  const ResidualPair y = kind == NormKind::kLayer ? AddNormalised(kernels, x, z, norm)
                                                  : NormalisedFirst(kernels, x, adds ? z : at::Tensor(), norm, type);
  const at::Tensor scales = dropout > 0 ? TestScales(c.rows, c.columns, dropout) : at::ones({}, at::kDouble);
  at::Tensor sum = has_bias ? exact[0] + exact[3] : exact[0];
  if (kind == NormKind::kLayer) sum = sum * scales;
  if (adds) sum = sum + exact[4];
  // What the type makes of the sum has the statistics, and passes its gradient on.
  const at::Tensor rounded = sum + (sum.detach().to(type).to(at::kDouble) - sum.detach());
  at::Tensor y64 = at::layer_norm(rounded, {c.columns}, exact[1], exact[2], kNormEpsilon);
  if (kind != NormKind::kLayer) y64 = y64 * scales;
  const double tolerance = ToleranceOf(type);
  EXPECT_EQ(y.main.scalar_type(), type);
  EXPECT_EQ(y.main.data_ptr(), y.shortcut.data_ptr());
  EXPECT_LE(Distance(y.main.detach(), y64.detach()), tolerance);

  RunBackward(y, y64, two_gradients, [&] { return at::randn(y64.sizes()).to(type).to(device); });
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(inputs[i].grad().scalar_type(), inputs[i].scalar_type());
    EXPECT_LE(Distance(inputs[i].grad(), exact[i].grad()), 3 * tolerance) << i;
  }
}

// What a residual network adds, with and without what some lack: γ, biases, a norm, dropout of elements or samples.
struct SumCase {
  bool normalises, has_vectors;
  double dropout;
  int64_t rows_of_sample;
};

inline void CompareSum(const TextCase& c, at::ScalarType type, const SumCase& sum_case, const TextKernels& of_device,
                       at::Device device) {
  SCOPED_TRACE(testing::Message() << type << " " << c.rows << "x" << c.columns << " norm " << sum_case.normalises
                                  << " vectors " << sum_case.has_vectors << " dropout " << sum_case.dropout << " of "
                                  << sum_case.rows_of_sample);
  const auto values = [&](double scale) {
    return (at::randn({c.rows, c.columns}) * scale + 0.5).to(type).to(device).requires_grad_();
  };
  const auto vector = [&](double offset) {
    return (at::randn({c.columns}) * 0.3 + offset).to(device).requires_grad_();
  };
  ResidualNorm norm{.x_bias = {},
                    .weight = {},
                    .bias = {},
                    .epsilon = kNormEpsilon,
                    .dropout = sum_case.dropout,
                    .rows_of_sample = sum_case.rows_of_sample};
  std::vector<at::Tensor> inputs = {values(1), values(2)};
  if (sum_case.normalises) inputs.push_back(norm.weight = vector(1));
  if (sum_case.normalises && sum_case.has_vectors) inputs.push_back(norm.bias = vector(0));
  if (sum_case.has_vectors) inputs.insert(inputs.end(), {norm.x_bias = vector(0.2), norm.scale = vector(0.7)});
  std::vector<at::Tensor> exact;
  for (const at::Tensor& input : inputs) exact.push_back(Exactly(input));
  const TextKernels kernels = WithTestRandom(of_device);
  const ResidualPair y = SumNormalised(kernels, inputs[0], inputs[1], norm);

  at::Tensor x64 = exact[0];
  if (sum_case.has_vectors) x64 = (x64 + exact[exact.size() - 2]) * exact.back();
  if (sum_case.dropout > 0) x64 = x64 * TestScales(c.rows, c.columns, sum_case.dropout, sum_case.rows_of_sample);
  const at::Tensor sum = exact[1] + x64;
  const at::Tensor rounded = sum + (sum.detach().to(type).to(at::kDouble) - sum.detach());
  at::Tensor y64 = rounded;
  if (sum_case.normalises) {
    const at::Tensor bias = sum_case.has_vectors ? exact[3] : at::Tensor();
    y64 = at::layer_norm(rounded, {c.columns}, exact[2], bias, kNormEpsilon);
  }
  const double tolerance = ToleranceOf(type);
  EXPECT_LE(Distance(y.shortcut.detach(), rounded.detach()), tolerance);
  EXPECT_LE(Distance(y.main.detach(), y64.detach()), tolerance);
  const auto gradient = [&] { return at::randn(y64.sizes()).to(type).to(device); };
  const at::Tensor dy = gradient(), dsum = gradient();
  torch::autograd::backward({y.main, y.shortcut}, {dy, dsum}, /*retain_graph=*/true);
  torch::autograd::backward({y64, rounded}, {dy.cpu().to(at::kDouble), dsum.cpu().to(at::kDouble)}, true);
  for (const bool main_alone : {false, true}) {  // the second time, one of the results has no user
    for (size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_LE(Distance(inputs[i].grad(), exact[i].grad()), 3 * tolerance) << i << main_alone;
    }
    if (main_alone) break;
    torch::autograd::backward({y.main}, {dy});
    torch::autograd::backward({y64}, {dy.cpu().to(at::kDouble)});
  }
}

inline void CompareUnit(const TextCase& c, at::ScalarType type, LinearUnit unit, bool has_bias,
                        const TextKernels& kernels, at::Device device) {
  SCOPED_TRACE(testing::Message() << type << " " << c.rows << "x" << c.columns << " unit " << static_cast<int>(unit)
                                  << " bias " << has_bias);
  const int64_t columns = c.columns * HalvesOf(unit);
  const at::Tensor x = (at::randn({c.rows, columns}) * 2).to(type).to(device).requires_grad_();
  const at::Tensor b = has_bias ? at::randn({columns}).to(device).requires_grad_() : at::Tensor();
  const at::Tensor x64 = Exactly(x), b64 = has_bias ? Exactly(b) : b, u64 = has_bias ? x64 + b64 : x64;
  const at::Tensor y = UnitOf(kernels, unit, x, b), first = u64.slice(1, 0, c.columns);
  at::Tensor y64 = unit == LinearUnit::kGatedSilu ? at::silu(first) : at::gelu(first);
  if (unit != LinearUnit::kGelu) y64 = y64 * u64.slice(1, c.columns);
  const at::Tensor dy = at::randn({c.rows, c.columns}).to(type).to(device);
  y.backward(dy);
  y64.backward(dy.cpu().to(at::kDouble));
  const double tolerance = ToleranceOf(type);
  EXPECT_LE(Distance(y.detach(), y64.detach()), tolerance);
  EXPECT_LE(Distance(x.grad(), x64.grad()), tolerance);
  if (!has_bias) return;
  EXPECT_LE(Distance(b.grad(), b64.grad()), tolerance);
}

inline void CompareRotation(const TextCase& c, at::ScalarType type, int64_t features, const TextKernels& kernels,
                            at::Device device) {
  SCOPED_TRACE(testing::Message() << type << " " << c.rows << "x" << c.columns << " heads of " << features);
  const at::Tensor product = at::randn({c.rows, 3 * c.columns}).to(type).to(device).requires_grad_();
  const at::Tensor angles = (at::rand({c.rows, features / 2}) * 100).repeat({1, 2});
  const at::Tensor product64 = Exactly(product), cosine = angles.cos(), sine = angles.sin();
  const auto turned = [&](const at::Tensor& x64) {
    const auto x = x64.view({c.rows, -1, features}),
               halves = at::cat({-x.slice(2, features / 2), x.slice(2, 0, features / 2)}, 2);
    return (x * cosine.unsqueeze(1).to(at::kDouble) + halves * sine.unsqueeze(1).to(at::kDouble)).flatten(1);
  };
  const auto parts64 = product64.split(c.columns, 1);
  const std::vector<at::Tensor> wanted = {turned(parts64[0]), turned(parts64[1]), parts64[2]};
  const auto results = RotatedQkv(kernels, product + 0, cosine.to(device), sine.to(device));
  std::vector<at::Tensor> gradients, gradients64;
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_LE(Distance(results.at(i).detach(), wanted[i].detach()), ToleranceOf(type)) << i;
    // With rows that follow each other, that do not, and whose beginning is not aligned.
    const at::Tensor wide = at::randn({c.rows, 2 * c.columns + 8}).to(type).to(device);
    const int64_t first = i == 1 ? 8 : 3;
    gradients.push_back(i == 0 ? wide.slice(1, 0, c.columns).contiguous() : wide.slice(1, first, first + c.columns));
    gradients64.push_back(gradients.back().cpu().to(at::kDouble));
  }
  torch::autograd::backward({results[0], results[1], results[2]}, gradients);
  torch::autograd::backward(wanted, gradients64);
  EXPECT_LE(Distance(product.grad(), product64.grad()), ToleranceOf(type));
}

// Products of float32 on a GPU must not be TF32's.
inline void CompareProducts(const TextCase& c, at::ScalarType type, const TextKernels& kernels, at::Device device) {
  SCOPED_TRACE(testing::Message() << type << " " << c.rows << "x" << c.columns);
  const at::Tensor x = at::randn({c.rows, c.columns}).to(type).to(device).requires_grad_(), x64 = Exactly(x);
  const at::Tensor weights =
      (at::randn({3 * c.columns, c.columns}) / std::sqrt(static_cast<double>(c.columns))).to(device).requires_grad_();
  const at::Tensor weights64 = Exactly(weights);
  std::array<at::Tensor, 3> biases, biases64;
  std::vector<at::Tensor> results64, gradients, gradients64;
  for (size_t i = 0; i < biases.size(); ++i) {
    biases[i] = at::randn({c.columns}).to(device).requires_grad_();
    biases64[i] = Exactly(biases[i]);
    const int64_t row = static_cast<int64_t>(i) * c.columns;
    results64.push_back(at::linear(x64, weights64.slice(0, row, row + c.columns), biases64[i]));
    // The second is strided as attention's gradients may be, the third not aligned.
    const at::Tensor wide = at::randn({c.rows, 2 * c.columns + 8}).to(type).to(device);
    const int64_t first = i == 0 ? 0 : i == 1 ? 8 : 3;
    gradients.push_back(wide.slice(1, first, first + c.columns));
    if (i == 0) gradients[0] = gradients[0].contiguous();
    gradients64.push_back(gradients.back().cpu().to(at::kDouble));
  }
  const auto results = FusedQkv(kernels, x, weights, biases);
  torch::autograd::backward({results[0], results[1], results[2]}, gradients);
  torch::autograd::backward(results64, gradients64);
  const double tolerance = ToleranceOf(type);
  for (size_t i = 0; i < biases.size(); ++i) {
    EXPECT_LE(Distance(results[i].detach(), results64[i].detach()), tolerance) << i;
    EXPECT_LE(Distance(biases[i].grad(), biases64[i].grad()), tolerance) << i;
  }
  EXPECT_LE(Distance(weights.grad(), weights64.grad()), tolerance);
  EXPECT_LE(Distance(x.grad(), x64.grad()), tolerance);
}

// Compares all kernels for a case and a type.
inline void CompareText(const TextCase& c, at::ScalarType type, const TextKernels& kernels, at::Device device) {
  for (const double dropout : {0.0, 0.1}) {
    for (const bool two_gradients : {false, true}) {
      CompareAddNorm(c, type, NormKind::kLayer, dropout, two_gradients, kernels, device);
    }
    for (const NormKind kind :
         {NormKind::kEmbeddings, NormKind::kFloatEmbeddings, NormKind::kHead, NormKind::kPixels}) {
      CompareAddNorm(c, type, kind, dropout, /*two_gradients=*/dropout > 0, kernels, device);
    }
  }
  for (const bool normalises : {false, true}) {
    for (const bool has_vectors : {false, true}) {
      CompareSum(c, type, {normalises, has_vectors, /*dropout=*/0, 0}, kernels, device);
      CompareSum(c, type, {normalises, has_vectors, /*dropout=*/0.3, has_vectors ? 3 : 0}, kernels, device);
    }
  }
  for (const LinearUnit unit : {LinearUnit::kGelu, LinearUnit::kGatedGelu, LinearUnit::kGatedSilu}) {
    for (const bool has_bias : {false, true}) CompareUnit(c, type, unit, has_bias, kernels, device);
  }
  for (const int64_t features : {16, 64, 96}) {
    if (c.columns % features == 0) CompareRotation(c, type, features, kernels, device);
  }
  if (c.columns <= 1024) CompareProducts(c, type, kernels, device);
}

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
