// The floors of steps are those that docs/performance.md derives by hand, from what the models' layers count.
#include "trainer/bench/benches.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "models/image_model.h"
#include "models/registry.h"
#include "tests/roberta.h"

namespace dtrain::bench {
namespace {

constexpr double kSgdBytes = 28, kAdamwBytes = 36;  // of a weight, with a half type

StepWork OfImages(models::ImageModel& model, int64_t images, int64_t state_bytes_of_weight, at::ScalarType products) {
  StepScale scale{.samples = images, .products = products};
  for (const at::Tensor& weight : model.parameters()) scale.weights += weight.numel();
  scale.optimizer_bytes = state_bytes_of_weight * scale.weights;
  return WorkOfStep(model.Cost(224), scale);
}

// By hand, in millions of elements an image: ResNet-50 normalises 3.29 with ReLU alone, 5.52 at the end of a block,
// 1.51 in a shortcut and 0.80 before pooling. EfficientNet-B0 normalises 6.74, of which 2.31 are excited and 0.21 have
// a residual; 3.79 go into its depthwise convolutions and 2.31 come out.
TEST(Roof, BytesAreThoseCountedByHand) {
  const double resnet = 3.29 * 8.19 + 5.52 * 11.125 + 1.51 * 4 + 0.80 * 6.6;
  const double efficientnet = 6.74 * 8 + (3.79 + 2.31) * 3 + 2.31 * 6 + 0.21 * 4;
  const auto resnet50 = models::MakeImageModel("resnet50", {}), b0 = models::MakeImageModel("efficientnet_b0", {});
  const StepWork half = OfImages(*resnet50, 256, 4, at::kBFloat16), floats = OfImages(*resnet50, 32, 8, at::kFloat);
  EXPECT_NEAR(half.bytes, 1e6 * (2 * 256 * resnet + 25.56 * kSgdBytes), 0.01 * half.bytes);
  EXPECT_NEAR(half.flops, 6 * 4.09e9 * 256, 0.01 * half.flops);
  EXPECT_NEAR(floats.bytes, 1e6 * (4 * 32 * resnet + 25.56 * (8 + 16 + 4)), 0.01 * floats.bytes);
  const StepWork work = OfImages(*b0, 64, 4, at::kHalf);
  EXPECT_NEAR(work.bytes, 1e6 * (2 * 64 * efficientnet + 5.29 * kSgdBytes), 0.01 * work.bytes);
}

TEST(Roof, TextCountsItsPasses) {
  const models::RobertaForMaskedLM model(
      {{.vocab_size = 1000, .hidden_size = 64}, /*layers=*/3, /*heads=*/2, /*intermediate_size=*/256});
  const models::ForwardCost cost = model.Cost(512, 512, 76);
  // What follows the last layer's attention is computed for the 76 tokens alone.
  const double elements = (512.0 * 3 * 3 + (512.0 * 2 + 76) * 42) * 64 + 76.0 * 1000 * 3;
  EXPECT_NEAR(cost.moved_elements, elements, 1e-3 * elements);
  const StepWork work =
      WorkOfStep(cost, {.samples = 32, .weights = 1000, .optimizer_bytes = 8000, .products = at::kBFloat16});
  EXPECT_NEAR(work.bytes, 2 * 32 * elements + 1000 * kAdamwBytes, 1e-3 * work.bytes);
}

TEST(Roof, IsTheProductsAndThenTheBytes) {
  const auto roof =
      DescribeRoof({.flops = 8e12, .bytes = 53.4e9}, {.bytes_per_second = 3e12, .flops_per_second = 800e12}, 0.05);
  EXPECT_NEAR(roof.at("floor_milliseconds").get<double>(), 10 + 17.8, 1e-9);
  EXPECT_NEAR(roof.at("share_of_floor").get<double>(), 27.8 / 50, 1e-9);
  EXPECT_EQ(roof.at("roof"),
            "floor 27.8 ms (products 10.0 at 800 TFLOP/s, 53.4 GB 17.8 at 3.00 TB/s), 56 % of it reached");
}

TEST(Roof, LimitsAreMeasured) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const DeviceLimits limits =
        MeasureLimits(at::kCPU, type, {.product_size = 64, .copied_bytes = 1 << 16, .times = 2});
    EXPECT_GT(limits.bytes_per_second, 1e6);
    EXPECT_GT(limits.flops_per_second, 1e5);
  }
}

}  // namespace
}  // namespace dtrain::bench
