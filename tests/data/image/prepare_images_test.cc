#include "data/image/prepare_images.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "data/error.h"

namespace dtrain::data {
namespace {

const std::vector<double> kMean = {0.485, 0.456, 0.406}, kStd = {0.229, 0.224, 0.225};

TEST(PrepareImages, IsToTensorAndNormalizeToTheBit) {
  const at::Tensor images = at::arange(256, at::kByte).repeat({6}).view({2, 16, 16, 3});
  const at::Tensor mean = at::tensor(kMean, at::kFloat).view({1, 3, 1, 1}),
                   std = at::tensor(kStd, at::kFloat).view({1, 3, 1, 1});
  const at::Tensor wanted = images.permute({0, 3, 1, 2}).contiguous().to(at::kFloat).div(255).sub(mean).div(std);
  for (const bool channels_last : {false, true}) {
    const at::Tensor result = PrepareImages(images, {kMean, kStd, channels_last}, at::kCPU);
    EXPECT_TRUE(at::equal(result, wanted));
    EXPECT_TRUE(result.is_contiguous(channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous));
  }
}

TEST(PrepareImages, FloatsKeepTheirValues) {
  const at::Tensor images = at::randn({2, 3, 5, 4});
  for (const bool channels_last : {false, true}) {
    const at::Tensor result = PrepareImages(images, {{}, {}, channels_last}, at::kCPU);
    EXPECT_TRUE(at::equal(result, images));
    EXPECT_TRUE(result.is_contiguous(channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous));
  }
}

TEST(PrepareImages, LowerPrecisionIsRoundedOnce) {
  const at::Tensor images = at::arange(256, at::kByte).repeat({3}).view({1, 16, 16, 3});
  const at::Tensor exact = PrepareImages(images, {kMean, kStd, true}, at::kCPU);
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    const at::Tensor result = PrepareImages(images, {kMean, kStd, true, type}, at::kCPU);
    EXPECT_TRUE(at::equal(result, exact.to(type)));
    EXPECT_FALSE(at::equal(result.to(at::kFloat), exact));
    EXPECT_TRUE(result.is_contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST(PrepareImages, AnEmptyBatchStaysEmpty) {
  EXPECT_EQ(PrepareImages(at::empty({0, 8, 8, 3}, at::kByte), {kMean, kStd, true}, at::kCPU).sizes(),
            (at::IntArrayRef{0, 3, 8, 8}));
}

TEST(PrepareImages, RefusesOtherTensors) {
  EXPECT_THROW(PrepareImages(at::zeros({2, 3, 5, 4}, at::kByte), {kMean, kStd, true}, at::kCPU), DataError);
  EXPECT_THROW(PrepareImages(at::zeros({2, 5, 4, 3}), {kMean, kStd, true}, at::kCPU), DataError);
  EXPECT_THROW(PrepareImages(at::zeros({5, 4, 3}, at::kByte), {kMean, kStd, true}, at::kCPU), DataError);
  EXPECT_THROW(PrepareImages(at::zeros({2, 5, 4, 3}, at::kByte), {{0.5}, {0.5}, true}, at::kCPU), DataError);
}

}  // namespace
}  // namespace dtrain::data
