#include "trainer/loop/early_stop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::loop {
namespace {

// 105 samples in batches of 10: an epoch has 10.5 steps, so epochs end at steps 11, 21, 32, 42, 53 …
Plan PlanOf(double eval_every_epochs) {
  config::Config config;
  config.batch.batch_size = 10;
  config.batch.epochs = 20;
  config.run.eval_every_epochs = eval_every_epochs;
  return MakePlan(config, 105, 1);
}

Progress At(int64_t step, int64_t best_step) {
  Progress progress;
  progress.step = step;
  progress.validation = report::ValPoint{.step = step, .metrics = {{"top1", 70, 2, true}}};
  progress.best = report::ValPoint{.step = best_step, .metrics = {{"top1", 75.926, 2, true}}};
  return progress;
}

std::string Why(double patience, double eval_every_epochs, const Progress& progress) {
  config::RunConfig config;
  config.stop_after_epochs_without_gain = patience;
  return WhyStopsEarly(config, PlanOf(eval_every_epochs), progress);
}

TEST(WhyStopsEarly, CountsEvaluationsNotFractionsOfEpochs) {
  EXPECT_EQ(Why(2, 1, At(32, 21)), "");
  EXPECT_EQ(Why(2, 1, At(42, 21)), "no better top1 than 75.93 of step 21 in 2 epochs");  // 42 − 21 = exactly 2 epochs
  EXPECT_NE(Why(2, 1, At(53, 32)), "");
  EXPECT_NE(Why(1, 1, At(21, 11)), "");  // 10 steps, less than an epoch of 10.5
  EXPECT_NE(Why(1, 0.5, At(16, 6)), "");
  EXPECT_EQ(Why(1, 0.5, At(11, 6)), "");
  EXPECT_NE(Why(3, 2, At(63, 21)), "");  // an evaluation every two epochs: 4 epochs without gain
  EXPECT_EQ(Why(3, 2, At(42, 21)), "");
}

TEST(WhyStopsEarly, NotWithoutBeingAskedOrEvaluated) {
  EXPECT_EQ(Why(0, 1, At(210, 11)), "");
  EXPECT_EQ(Why(2, 1, At(21, 21)), "");
  EXPECT_EQ(Why(2, 1, Progress{}), "");
  Progress not_yet = At(42, 21);
  not_yet.step = 43;
  EXPECT_EQ(Why(2, 1, not_yet), "");
}

}  // namespace
}  // namespace dtrain::loop
