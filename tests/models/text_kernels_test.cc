// Runs the kernels' threads in loops and compares with ATen in float64: values, gradients, and whole models.
#include "models/text_kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "models/image_networks.h"
#include "tests/models/autocast.h"
#include "tests/models/text_comparison.h"
#include "tests/models/text_stand_in.h"
#include "tests/modernbert.h"
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
        if (parts == 1 && type != at::kFloat) continue;  // the same but for rounding
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
  EXPECT_TRUE(UnitOf(kernels, LinearUnit::kGelu, x.detach(), none).isnan().any().item<bool>());
}

// A model without the kernels and with them, with the same weights, none of which is 0 or so small that it is not seen.
template <typename Model>
struct Twins {
  std::shared_ptr<Model> plain, with;

  explicit Twins(const std::function<std::shared_ptr<Model>()>& make) : plain(make()), with(make()) {
    const at::NoGradGuard no_grad;
    for (auto& item : plain->named_parameters()) {
      item.value().add_(at::randn_like(item.value()) * 0.1);
      if (item.key().ends_with("gamma")) item.value().add_(0.5);
      with->named_parameters()[item.key()].copy_(item.value());
    }
    UseKernels(*with, {.text = &stand_in::kTextKernels});
  }

  // Compares what `output` makes of both, and the gradients. With autocast, both are compared with float32.
  void Compare(const std::function<at::Tensor(Model&)>& output, bool autocasts) const {
    const auto run = [&](Model& model, bool with_autocast) {
      std::optional<Autocast> autocast;
      if (with_autocast) autocast.emplace();
      return output(model);
    };
    const at::Tensor wanted = run(*plain, false), result = run(*with, autocasts);
    EXPECT_LE(Distance(result.detach(), wanted.detach()), autocasts ? 5e-2 : 1e-5);
    const at::Tensor dy = at::randn_like(wanted);
    wanted.backward(dy);
    result.backward(dy.to(result.scalar_type()));
    double largest = 0;
    for (const at::Tensor& parameter : plain->parameters()) {
      if (parameter.grad().defined()) largest = std::max(largest, parameter.grad().norm().template item<double>());
    }
    for (const auto& item : plain->named_parameters()) {
      const at::Tensor gradient = with->named_parameters()[item.key()].grad();
      ASSERT_EQ(gradient.defined(), item.value().grad().defined()) << item.key();
      if (!gradient.defined()) continue;
      EXPECT_LE((gradient - item.value().grad()).norm().template item<double>(),
                (autocasts ? 1e-1 : 1e-4) * (item.value().grad().norm().template item<double>() + 1e-2 * largest))
          << item.key();
    }
  }
  void CompareEvaluation(const std::function<at::Tensor(Model&)>& output) const {
    plain->eval();
    with->eval();
    EXPECT_TRUE(at::equal(output(*plain), output(*with)));
  }
};

TEST(TextKernels, ImageModelsAreTheSameWithThem) {
  using Options = VisionTransformerOptions;
  const Options small{.width = 32, .layers = 3, .heads = 2, .hidden = 48, .patch = 8, .grid = 4};
  const auto changed = [&small](const std::function<void(Options&)>& change) {
    Options options = small;
    change(options);
    return options;
  };
  const ImageModelOptions given{.num_classes = 7, .dropout = 0, .drop_path = 0};
  std::vector<std::function<std::shared_ptr<ImageModel>()>> makers;
  for (const Options& options : {small, changed([](Options& o) { o.distilled = true; }), changed([](Options& o) {
                                   o.averages = true, o.qkv_bias = false, o.layer_scale = 0.3;
                                 }),
                                 changed([](Options& o) { o.gated = true, o.registers = 2, o.layer_scale = 0.3; })}) {
    makers.emplace_back([options, given] { return MakeVisionTransformer(options, given); });
  }
  for (const char* name : {"convnext_atto", "convnextv2_atto"}) {
    makers.emplace_back([name, given] { return MakeImageModel(name, given); });
  }
  stand_in::num_parts = 3;
  for (size_t i = 0; i < makers.size(); ++i) {
    for (const bool autocasts : {false, true}) {
      SCOPED_TRACE(testing::Message() << "model " << i << " autocast " << autocasts);
      at::manual_seed(9);
      const at::Tensor images = at::randn({3, 3, 32, 32}).contiguous(kLast);
      const Twins<ImageModel> twins(makers[i]);
      const auto output = [&](ImageModel& model) { return model.forward(images); };
      twins.Compare(output, autocasts);
      twins.CompareEvaluation(output);
    }
  }
}

// Also where parameters are frozen, and with weights of half types, as --memory_efficient_fp16 has them. Frozen ones
// get no gradient, and what is below them none either. Autocast keeps the residual in the type of products.
TEST(TextKernels, TextModelsAreTheSameWithThem) {
  stand_in::num_parts = 3;
  const at::Tensor ids = RobertaIds(), some_rows = at::tensor({20, 3, 0}, at::kLong);
  const std::vector<std::pair<TextShape, std::function<std::shared_ptr<TextModel>()>>> models = {
      {kRobertaShape, [] { return std::make_shared<RobertaForMaskedLM>(SmallRoberta(0)); }},
      {{.padding_id = kPadding, .first_position = 0, .longest_sequence = 9},
       [] { return SmallModernBert(50, 9, /*dropout=*/0); }}};
  for (size_t i = 0; i < 2 * models.size(); ++i) {
    const auto& model = models[i / 2];
    const bool packed = i % 2 == 1;
    const Sequences sequences =
        packed ? Packed(ids, ids.ne(kPadding), model.first) : Padded(ids, ids.ne(kPadding), model.first);
    for (const auto& [autocasts, weights] : {std::pair{false, at::kFloat}, {true, at::kFloat}, {true, at::kBFloat16}}) {
      SCOPED_TRACE(testing::Message() << "case " << i << " autocast " << autocasts << " weights " << weights);
      at::manual_seed(10);
      const Twins<TextModel> twins(model.second);
      for (TextModel* twin : {twins.plain.get(), twins.with.get()}) {
        for (auto& item : twin->named_parameters()) {
          for (const char* frozen : {"layer.1.attention.self.key.weight", "layer.1.output.LayerNorm.weight",
                                     "layer.0.intermediate.dense.bias"}) {
            if (item.key().ends_with(frozen)) item.value().set_requires_grad(false);
          }
        }
      }
      twins.with->to(weights);
      const at::ScalarType type = autocasts ? at::kBFloat16 : at::kFloat;
      const auto output = [&](TextModel& twin) {
        const at::Tensor encoded = twin.Encode(sequences, packed ? at::Tensor() : some_rows);
        if (&twin == twins.with.get() && twin.is_training()) {
          EXPECT_EQ(encoded.scalar_type(), type);
        }
        return twin.Scores(encoded);
      };
      twins.Compare(output, autocasts);
      if (weights == at::kFloat) twins.CompareEvaluation(output);
    }
  }
}

// Stochastic depth leaves out what the residual gets from a sample, and nothing else.
TEST(TextKernels, ADroppedSampleIsItsResidual) {
  const int64_t rows_of_sample = 5, samples = 40, columns = 16;
  const at::Tensor x = at::randn({samples * rows_of_sample, columns}), z = at::randn_like(x);
  const at::Tensor y =
      SumNormalised(WithTestRandom(stand_in::kTextKernels), x, z,
                    {.x_bias = {}, .weight = {}, .bias = {}, .dropout = 0.5, .rows_of_sample = rows_of_sample})
          .shortcut;
  const at::Tensor added = (y - z).view({samples, -1}), wanted = (2 * x).view({samples, -1});
  int64_t dropped = 0;
  for (int64_t i = 0; i < samples; ++i) {
    if (added[i].eq(0).all().item<bool>())
      ++dropped;
    else
      EXPECT_TRUE(at::allclose(added[i], wanted[i], 1e-5, 1e-5));
  }
  EXPECT_NEAR(static_cast<double>(dropped), 20, 12);
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
