// Runs the kernels' threads in loops and compares with ATen in float64: values, gradients, and whole models.
#include "models/text_kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/models/autocast.h"
#include "tests/models/text_comparison.h"
#include "tests/models/text_stand_in.h"
#include "tests/roberta.h"

namespace dtrain::models {
namespace {

// The known answers of Random123 1.14 (kat_vectors).
TEST(Philox, NumbersAreThePapers) {
  const auto numbers = [](uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t key, uint32_t more_key) {
    const kernels::FourNumbers drawn = kernels::Philox({{a, b, c, d}}, key, more_key);
    return std::vector<uint32_t>(std::begin(drawn.values), std::end(drawn.values));
  };
  constexpr uint32_t kOnes = 0xFFFFFFFF;
  EXPECT_EQ(numbers(0, 0, 0, 0, 0, 0), (std::vector<uint32_t>{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  EXPECT_EQ(numbers(kOnes, kOnes, kOnes, kOnes, kOnes, kOnes),
            (std::vector<uint32_t>{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(numbers(0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0),
            (std::vector<uint32_t>{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(Philox, DropoutKeepsItsShareAndTheMean) {
  for (const double dropout : {0.0, 0.1, 0.5, 0.99, 1.0}) {
    const at::Tensor scales = TestScales(1000, 1000, dropout);
    const double kept = scales.gt(0).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(kept, 1 - dropout, 0.0015) << dropout;  // three deviations of a million draws
    const double mean = dropout < 1 ? 1 : 0;
    EXPECT_NEAR(scales.max().item<double>() * (1 - dropout), mean, 1e-3) << dropout;
  }
}

TEST(Philox, ARecordedGraphFindsItsNumbersInMemory) {
  const int64_t seed = 77, offset = 400;
  const kernels::RandomNumbers direct({.seed = 77, .offset = 412});
  const kernels::RandomNumbers recorded({.seed = 0, .offset = 12, .seed_at = &seed, .offset_at = &offset});
  for (const int64_t place : {int64_t{0}, int64_t{1} << 40}) {
    EXPECT_EQ(direct(place).values[3], recorded(place).values[3]);
  }
  EXPECT_NE(direct(0).values[0], direct(1).values[0]);
  EXPECT_NE(direct(0).values[0], direct(int64_t{1} << 32).values[0]);
}

TEST(TextKernels, ValuesAndGradientsAreThoseOfAtenInDoublePrecision) {
  at::manual_seed(1);
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const TextCase& c : TextCases()) {
      for (const int parts : {1, 7}) {
        stand_in::num_threads = parts == 1 ? 37 : 5000;
        stand_in::num_parts = parts;
        CompareText(c, type, stand_in::kTextKernels, at::kCPU);
      }
    }
  }
}

// The mean is exact to 1e-7 of itself, and the variance does not suffer from a large one.
TEST(TextKernels, ARowFarFromZeroIsNormalised) {
  const at::Tensor x = at::randn({4, 768}), z = at::full({4, 768}, 1000.0), none = at::zeros({768});
  const at::Tensor y =
      AddNormalised(stand_in::kTextKernels, x, z,
                    {.x_bias = none, .weight = at::ones({768}), .bias = none, .epsilon = kNormEpsilon, .dropout = 0})
          .main;
  const at::Tensor sum = (x + z).to(at::kDouble);
  EXPECT_LE(Distance(y, at::layer_norm(sum, {768}, {}, {}, kNormEpsilon)), 2e-4);
}

TEST(TextKernels, ANaNIsSeenEvenIfItIsDropped) {
  const auto kernels = WithTestRandom(stand_in::kTextKernels);
  const at::Tensor dropped = TestScales(2, 64, 0.5).eq(0).nonzero()[0];
  at::Tensor x = at::randn({2, 64});
  x[dropped[0].item<int64_t>()][dropped[1].item<int64_t>()] = std::numeric_limits<float>::quiet_NaN();
  x.requires_grad_();
  const at::Tensor none = at::zeros({64}).requires_grad_();
  const ResidualNorm norm{
      .x_bias = none, .weight = at::ones({64}), .bias = none, .epsilon = kNormEpsilon, .dropout = 0.5};
  const at::Tensor y = AddNormalised(kernels, x, at::zeros({2, 64}), norm).main;
  EXPECT_EQ(y.isnan().sum().item<int64_t>(), 64);
  y.sum().backward();
  EXPECT_TRUE(x.grad().isnan().any().item<bool>());
  EXPECT_TRUE(none.grad().isnan().any().item<bool>());
  EXPECT_TRUE(BiasGelu(kernels, x.detach(), none).isnan().any().item<bool>());
}

void CopyWeights(const RobertaForMaskedLM& from, RobertaForMaskedLM& to) {
  const at::NoGradGuard no_grad;
  for (const auto& item : from.named_parameters()) to.named_parameters()[item.key()].copy_(item.value());
}

TEST(TextKernels, ARobertaIsTheSameWithThem) {
  at::manual_seed(5);
  stand_in::num_parts = 3;
  const at::Tensor ids = RobertaIds();
  for (const bool packed : {false, true}) {
    RobertaForMaskedLM plain(SmallRoberta(0)), with(SmallRoberta(0));
    CopyWeights(plain, with);
    with.UseKernels(stand_in::kTextKernels);
    const Sequences sequences =
        packed ? Packed(ids, ids.ne(kPadding), kRobertaShape) : Padded(ids, ids.ne(kPadding), kRobertaShape);
    const at::Tensor rows = packed ? at::Tensor() : at::tensor({20, 3, 0}, at::kLong);
    // Frozen parameters get no gradient, and what is below them none either.
    for (RobertaForMaskedLM* model : {&plain, &with}) {
      auto parameters = model->named_parameters();
      parameters["roberta.encoder.layer.1.attention.self.key.weight"].set_requires_grad(false);
      parameters["roberta.encoder.layer.1.output.LayerNorm.weight"].set_requires_grad(false);
      parameters["roberta.encoder.layer.0.intermediate.dense.bias"].set_requires_grad(false);
    }
    const at::Tensor wanted = plain.Scores(plain.Encode(sequences, rows));
    const at::Tensor result = with.Scores(with.Encode(sequences, rows));
    EXPECT_LE(Distance(result.detach(), wanted.detach()), 1e-5);
    wanted.log_softmax(1).slice(1, 0, 1).sum().backward();
    result.log_softmax(1).slice(1, 0, 1).sum().backward();
    for (const auto& item : plain.named_parameters()) {
      const at::Tensor gradient = with.named_parameters()[item.key()].grad();
      ASSERT_EQ(gradient.defined(), item.value().grad().defined()) << item.key();
      if (!gradient.defined() || item.key().find("key.bias") != std::string::npos) continue;  // 0 but for rounding
      EXPECT_LE(Distance(gradient, item.value().grad()), 1e-4) << item.key();
    }
    plain.eval();
    with.eval();
    EXPECT_TRUE(at::equal(plain.Encode(sequences), with.Encode(sequences)));
  }
}

// Also with weights of half types, as --memory_efficient_fp16 has them.
TEST(TextKernels, AutocastKeepsTheResidualInTheTypeOfProducts) {
  at::manual_seed(6);
  const at::Tensor ids = RobertaIds();
  const Sequences sequences = Padded(ids, ids.ne(kPadding), kRobertaShape);
  for (const at::ScalarType weights : {at::kFloat, at::kBFloat16}) {
    RobertaForMaskedLM plain(SmallRoberta(0)), with(SmallRoberta(0));
    CopyWeights(plain, with);
    with.UseKernels(stand_in::kTextKernels);
    with.to(weights);
    const at::Tensor wanted = plain.Encode(sequences);
    at::Tensor result;
    {
      const Autocast autocast;
      result = with.Encode(sequences);
    }
    EXPECT_EQ(result.scalar_type(), at::kBFloat16);
    EXPECT_LE(Distance(result.detach(), wanted.detach()), 2e-2);
    wanted.square().slice(1, 0, 9).sum().backward();
    result.to(at::kFloat).square().slice(1, 0, 9).sum().backward();
    for (const auto& item : plain.named_parameters()) {
      if (item.key().starts_with("lm_head") || item.key().find("key.bias") != std::string::npos) continue;
      const at::Tensor gradient = with.named_parameters()[item.key()].grad();
      EXPECT_EQ(gradient.scalar_type(), weights) << item.key();
      EXPECT_LE(Distance(gradient, item.value().grad()), 5e-2) << item.key();
    }
  }
}

TEST(TextKernels, SupportedTensors) {
  EXPECT_TRUE(HasTextKernels(at::zeros({3, 8}), 8));
  EXPECT_FALSE(HasTextKernels(at::zeros({3, 8}), 12));
  EXPECT_FALSE(HasTextKernels(at::zeros({0, 8}), 8));
  EXPECT_FALSE(HasTextKernels(at::zeros({3, 8}, at::kDouble), 8));
  EXPECT_FALSE(HasTextKernels(at::zeros({3, 8}, at::TensorOptions(at::kMeta)), 8));
}

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
