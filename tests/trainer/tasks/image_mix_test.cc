// tests/interop/test_mixing.py compares mixed images and their losses with torchvision's and timm's.
#include "trainer/tasks/image_mix.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace dtrain::tasks {
namespace {

data::Batch BatchOf(int64_t images, const data::Mix& mix) {
  data::Batch batch;
  batch.tensors["images"] = at::zeros({images, 8, 10, 3}, at::kByte);
  batch.tensors["index"] = at::arange(images);
  AddMix(batch, mix);
  return batch;
}

TEST(ImageMix, HalfTypesAreRoundedOnce) {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    const at::Tensor images = at::randn({4, 3, 8, 10}).to(type).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor exact = images.to(at::kFloat) * 0.3 + images.to(at::kFloat).roll(1, 0) * 0.7;
    const at::Tensor mixed = MixedImages(images, BatchOf(4, {.own_share = 0.3}), {.mixup = 1});
    EXPECT_TRUE(at::equal(mixed, exact.to(type)));
    EXPECT_TRUE(mixed.is_contiguous(at::MemoryFormat::ChannelsLast));
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
