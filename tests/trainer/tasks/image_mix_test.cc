// Mixed images and losses against the definitions of mixup and CutMix. Float32 gives the same bits, and half types are
// rounded once.
#include "trainer/tasks/image_mix.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace dtrain::tasks {
namespace {

constexpr data::MixOptions kMixup{.mixup = 1}, kCutmix{.cutmix = 1}, kBoth{.mixup = 1, .cutmix = 1};

data::Batch BatchOf(int64_t images, const data::Mix& mix) {
  data::Batch batch;
  batch.tensors["images"] = at::zeros({images, 8, 10, 3}, at::kByte);
  batch.tensors["index"] = at::arange(images);
  AddMix(batch, mix);
  return batch;
}

at::Tensor ImagesOf(int64_t images) {
  at::manual_seed(images);
  return at::randn({images, 3, 8, 10}).contiguous(at::MemoryFormat::ChannelsLast);
}

TEST(ImageMix, MixupBlendsWithTheImageBefore) {
  for (const int64_t count : {1, 2, 5}) {
    const at::Tensor images = ImagesOf(count), others = images.roll(1, 0);
    for (const double share : {0.3, 0.0, 1.0, 1.0 / 3}) {
      const data::Batch batch = BatchOf(count, {.own_share = share});
      const at::Tensor wanted = images * share + others * (1 - share);
      for (const auto& options : {kMixup, kBoth}) {
        const at::Tensor mixed = MixedImages(images, batch, options);
        EXPECT_TRUE(at::equal(mixed, wanted)) << count << " " << share;
        EXPECT_TRUE(count == 1 || mixed.is_contiguous(at::MemoryFormat::ChannelsLast));
      }
      const auto [own, other] = LabelShares(batch);
      EXPECT_EQ(own.item<float>(), static_cast<float>(share));
      EXPECT_EQ(other.item<float>(), static_cast<float>(1 - share));
    }
  }
}

TEST(ImageMix, CutMixTakesABoxOfTheImageBefore) {
  const at::Tensor images = ImagesOf(3), others = images.roll(1, 0);
  for (const data::CropBox box : {data::CropBox{.x = 2, .y = 1, .width = 5, .height = 3}, data::CropBox{0, 0, 10, 8},
                                  data::CropBox{9, 7, 1, 1}, data::CropBox{3, 4, 0, 2}}) {
    at::Tensor wanted = images.clone();
    const auto part = [&box](const at::Tensor& all) {
      return all.slice(2, box.y, box.y + box.height).slice(3, box.x, box.x + box.width);
    };
    part(wanted).copy_(part(others));
    const data::Batch batch = BatchOf(3, {.own_share = 0.25, .box = box});
    for (const auto& options : {kCutmix, kBoth}) {
      const at::Tensor mixed = MixedImages(images, batch, options);
      EXPECT_TRUE(at::equal(mixed, wanted)) << box.x;
      EXPECT_TRUE(mixed.is_contiguous(at::MemoryFormat::ChannelsLast));
    }
    const auto [own, other] = LabelShares(batch);
    EXPECT_EQ(own.item<float>(), 0.25F);
    EXPECT_EQ(other.item<float>(), 0.75F);
  }
}

TEST(ImageMix, HalfTypesAreRoundedOnce) {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    const at::Tensor images = ImagesOf(4).to(type);
    const at::Tensor exact = images.to(at::kFloat) * 0.3 + images.to(at::kFloat).roll(1, 0) * 0.7;
    EXPECT_TRUE(at::equal(MixedImages(images, BatchOf(4, {.own_share = 0.3}), kMixup), exact.to(type)));
  }
}

// As timm's train.py with --mixup-off-epoch.
TEST(ImageMix, EndsWithItsEpochs) {
  struct Case {
    const char* last_batch;
    int64_t samples, batch, epochs, steps;
  };
  // 11 epochs of 25/11 steps are more than 25 in floating point.
  for (const Case& c : {Case{"stream", 20, 8, 2, 5}, {"drop", 20, 8, 2, 4}, {"stream", 25, 11, 11, 25}}) {
    config::Config config;
    config.image.mixup = 1;
    config.image.mix_epochs = static_cast<double>(c.epochs);
    config.batch.global_batch_size = c.batch;
    config.data.last_batch = c.last_batch;
    const auto mix = MixBatches(config, c.samples);
    for (int64_t step = c.steps - 4; step < c.steps + 3; ++step) {
      data::Batch batch = BatchOf(8, {});
      batch.number = batch.part.step = step;
      mix(batch);
      EXPECT_EQ(LabelShares(batch).first.item<float>() < 1, step < c.steps) << c.last_batch << " " << step;
    }
  }
}

}  // namespace
}  // namespace dtrain::tasks
