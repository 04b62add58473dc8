#include "trainer/config/choices.h"

#include <gtest/gtest.h>

namespace dtrain::config {
namespace {

TEST(DescribeAugmentation, SaysAllThatIsDone) {
  ImageConfig image;
  EXPECT_EQ(DescribeAugmentation(image, "basic"), "crop and flip");
  EXPECT_EQ(DescribeAugmentation(image, "none"), "none");
  image.crop_scale = {0.35, 1};
  image.hflip = 0.2;
  EXPECT_EQ(DescribeAugmentation(image, "basic"), "crop (scale 0.35,1) and flip (0.2)");
  image.crop_ratio = {1, 1};
  image.hflip = 0;
  EXPECT_EQ(DescribeAugmentation(image, "basic"), "crop (scale 0.35,1) (ratio 1,1)");
  image = ImageConfig();
  image.augment = "trivialaugment";
  image.augment_interpolation = "bilinear";
  image.repeated_augmentation = 4;
  image.color_jitter = {0.4, 0.4, 0.4, 0.1};
  image.pca_lighting = 0.1;
  image.random_erasing = 0.1;
  image.mixup = 0.2;
  image.cutmix = 1;
  EXPECT_EQ(DescribeAugmentation(image, "none"),
            "crop and flip, trivialaugment (bilinear), color jitter 0.4,0.4,0.4,0.1, PCA lighting 0.1, random erasing "
            "0.1, mixup 0.2, cutmix 1, repeated 4");
}

// tests/integration/test_recipes.py shows more of them.
TEST(DescribeOptimizer, SaysWhatItsFlagsMean) {
  OptimizerConfig optimizer;
  optimizer.name = "rmsprop_tf";
  optimizer.rmsprop_eps = 0.01;
  optimizer.loss = "bce";
  optimizer.ema_decay = 0.9999;
  EXPECT_EQ(DescribeOptimizer(optimizer),
            "rmsprop_tf, momentum 0.9, alpha 0.9, eps 0.01, weight decay 0.0001, binary cross entropy, EMA 0.9999");
  optimizer = OptimizerConfig();
  optimizer.name = "adam";
  optimizer.clip_norm = 1;
  EXPECT_EQ(DescribeOptimizer(optimizer), "adam, betas 0.9,0.999, eps 1e-08, weight decay 0.0001, clipped to 1");
}

}  // namespace
}  // namespace dtrain::config
