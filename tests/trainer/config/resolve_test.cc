// What follows from what.
#include "trainer/config/resolve.h"

#include <gtest/gtest.h>

namespace dtrain::config {
namespace {

TEST(Resolve, FillsBatchSizesAndEvalResize) {
  Config config;
  config.batch.global_batch_size = 256;
  config.batch.batch_size = 32;
  Resolve(config, 4);
  EXPECT_EQ(config.batch.grad_accum_steps, 2);
  EXPECT_EQ(config.image.eval_resize, 256);
}

TEST(Resolve, LeavesWhatWasSaid) {
  Config config;
  config.image.size = 32;
  config.image.eval_resize = 32;
  Resolve(config, 1);
  EXPECT_EQ(config.image.eval_resize, 32);
}

}  // namespace
}  // namespace dtrain::config
