// The values that are derived from others.
#include "trainer/config/resolve.h"

#include <gtest/gtest.h>

namespace dtrain::config {
namespace {

TEST(Resolve, FillsInWhatWasNotSaid) {
  Config config;
  config.batch.global_batch_size = 256;
  config.batch.batch_size = 32;
  Resolve(config, 4);
  EXPECT_EQ(config.batch.grad_accum_steps, 2);
  EXPECT_EQ(config.image.eval_resize, 256);
  config.image.eval_resize = 230;
  config.precision.memory_efficient_fp16 = true;
  Resolve(config, 4);
  EXPECT_EQ(config.image.eval_resize, 230);
  EXPECT_EQ(config.precision.name, "fp16");
}

TEST(Resolve, ALearningRateThatWasNotSaidGoesWithOptimizerAndBatch) {
  const auto resolved = [](Config config) {
    Resolve(config, 1);
    return *config.optimizer.lr;
  };
  Config config;
  config.batch.batch_size = 64;
  EXPECT_DOUBLE_EQ(resolved(config), 0.1 * 64 / 256);
  config.batch.grad_accum_steps = 8;
  EXPECT_DOUBLE_EQ(resolved(config), 0.1 * 512 / 256);
  config.optimizer.lr_base_batch = 128;  // scales the rate later
  EXPECT_DOUBLE_EQ(resolved(config), 0.1);
  config.optimizer.lr = 0;
  EXPECT_EQ(resolved(config), 0);
  for (const char* adam : {"adam", "adamw"}) {
    config.optimizer = {};
    config.optimizer.name = adam;
    EXPECT_DOUBLE_EQ(resolved(config), 1e-3);
  }
}

TEST(ResolveForDevice, AmpIsTheDevicesHalfPrecision) {
  const auto resolved = [](const std::string& given, bool has_gpu, const std::string& backend = "auto") {
    Config config;
    config.precision.name = given;
    config.ranks.backend = backend;
    const bool says = !ResolveForDevice(config, has_gpu).empty();
    return config.precision.name + (says ? ", said" : "");
  };
  EXPECT_EQ(resolved("amp", true), "fp16");
  EXPECT_EQ(resolved("amp", false), "bf16, said");
  EXPECT_EQ(resolved("amp", true, "gloo"), "bf16, said");
  for (const char* name : {"fp32", "tf32", "fp16", "bf16"}) EXPECT_EQ(resolved(name, false), name);
}

// torchvision's own command: 8 x 128 images, 600 epochs (references/classification/train.py, `adjust`).
TEST(EmaDecay, IsScaledAsByTorchvision) {
  OptimizerConfig optimizer;
  optimizer.ema_decay = 0.99998;
  optimizer.ema_every = 32;
  EXPECT_EQ(EmaDecay(optimizer, 600, 1024), 0.99998);
  optimizer.ema_scaling = "torchvision";
  EXPECT_NEAR(EmaDecay(optimizer, 600, 1024), 1 - 2e-5 * 1024 * 32 / 600, 1e-12);
  EXPECT_EQ(EmaDecay(optimizer, 1, 1 << 20), 0);
  optimizer.ema_decay = 0;
  EXPECT_EQ(EmaDecay(optimizer, 600, 1024), 0);  // there is no average
}

TEST(ResolveForDevice, SentencesOnACpuAreNotPadded) {
  const auto resolved = [](const std::string& task, bool has_gpu, const std::string& backend = "auto") {
    Config config;
    config.run.task = task;
    config.ranks.backend = backend;
    ResolveForDevice(config, has_gpu);
    return config.text.unpad;
  };
  EXPECT_TRUE(resolved("text_classification", false) && resolved("text_regression", true, "gloo"));
  EXPECT_FALSE(resolved("text_classification", true) || resolved("masked_lm", false));
}

}  // namespace
}  // namespace dtrain::config
