// The text of the metrics. tests/integration/test_metrics.py reads it with Prometheus' own parser.
#include "trainer/report/run_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>

namespace dtrain::report {
namespace {

using testing::HasSubstr;
using testing::Not;

const RunFacts kFacts{.model = "resnet18", .world_size = 4, .total_steps = 100};

std::vector<GpuUse> NoGpus() { return {}; }

TEST(RunMetrics, BeforeTheFirstStepWhatIsKnown) {
  RunMetrics metrics(kFacts, &NoGpus);
  metrics.Resume(7, 0.5);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("# HELP dtrain_step_total Optimizer steps done, as of the last logged one.\n"
                              "# TYPE dtrain_step_total counter\ndtrain_step_total 7\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE dtrain_ranks gauge\ndtrain_ranks 4\n"));
  EXPECT_THAT(text, HasSubstr("\ndtrain_planned_steps 100\n"));
  EXPECT_THAT(text, HasSubstr("\ndtrain_epoch 0.5\n"));
  EXPECT_THAT(text, HasSubstr(",model=\"resnet18\"} 1\n"));
  for (const char* none : {"dtrain_loss", "dtrain_val_", "dtrain_gpu_", "dtrain_checkpoint_", "images_per_second"}) {
    EXPECT_THAT(text, Not(HasSubstr(none)));
  }
}

TEST(RunMetrics, WhatWasLoggedLast) {
  RunMetrics metrics(kFacts, &NoGpus);
  metrics.Resume(10, 0.1);
  TrainPoint point{.step = 20,
                   .epoch = 0.2,
                   .loss = 2.5,
                   .lr = 0.1,
                   .speed = 1000,
                   .data_seconds = 0.25,
                   .step_seconds = 0.5,
                   .bad_records = 3,
                   .time = 1700000000.25};
  point.skipped_steps = 1;
  metrics.Train(point);
  point.step = 24;
  point.loss = 2;
  point.grad_norm = 1.5;
  point.loss_scale = 1024;
  point.skipped_steps = 2;
  point.checkpoint_seconds = 0.125;
  metrics.Train(point);
  metrics.Validation({.metrics = {{"top1", 75.5}, {"a-b", 1}}});
  metrics.Epoch({.epoch = 1, .epoch_seconds = 60});
  metrics.Finish({.step = 25, .epoch = 0.25});
  const std::string text = metrics.Text();
  for (const char* line :
       {"step_total 25", "epoch 0.25", "finished 1", "loss 2", "learning_rate 0.1", "images_per_second 1000",
        "step_seconds 0.5", "gradient_norm 1.5", "loss_scale 1024", "last_step_timestamp_seconds 1700000000.25",
        "bad_records_total 3", "checkpoint_seconds 0.125", "val_top1 75.5", "val_a_b 1", "epoch_seconds 60",
        "data_wait_seconds_total 3.5", "skipped_steps_total 3"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\ndtrain_") + line + "\n"));
  }
}

TEST(RunMetrics, TokensAreNoImages) {
  RunMetrics metrics(kFacts, &NoGpus);
  metrics.Train({.step = 1, .speed = 5, .speed_unit = SpeedUnit::kTokens});
  EXPECT_THAT(metrics.Text(), HasSubstr("\ndtrain_tokens_per_second 5\n"));
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("images")));
}

TEST(RunMetrics, ACheckpointAgesBetweenPoints) {
  RunMetrics metrics(kFacts, &NoGpus);
  TrainPoint point{.step = 1};
  point.checkpoint_age = 100;
  metrics.Train(point);
  const std::string text = metrics.Text();
  const std::string name = "\ndtrain_checkpoint_age_seconds ";
  ASSERT_THAT(text, HasSubstr(name));
  EXPECT_GE(std::stod(text.substr(text.find(name) + name.size())), 100);
}

TEST(RunMetrics, NumbersThatAreNone) {
  RunMetrics metrics(kFacts, &NoGpus);
  metrics.Train({.step = 1, .loss = std::numeric_limits<double>::quiet_NaN()});
  EXPECT_THAT(metrics.Text(), HasSubstr("\ndtrain_loss NaN\n"));
}

TEST(RunMetrics, OneFamilyForAllGpus) {
  RunMetrics metrics(kFacts, [] { return std::vector<GpuUse>{{0, 0.25, 1, 10}, {3, 1, 2, 10}}; });
  EXPECT_THAT(metrics.Text(),
              HasSubstr("# TYPE dtrain_gpu_utilization_ratio gauge\ndtrain_gpu_utilization_ratio{gpu=\"0\"} 0.25\n"
                        "dtrain_gpu_utilization_ratio{gpu=\"3\"} 1\n# HELP dtrain_gpu_memory_used_bytes"));
}

TEST(PrometheusText, WhatWouldEndALabelOrALineIsEscaped) {
  PrometheusText text;
  text.Gauge("x", "Help.", 0.1, {{"a", "q\"b\\\nc"}, {"b", ""}});
  text.Gauge("x", "Help.", -std::numeric_limits<double>::infinity());
  text.Gauge("y", "None.", std::optional<double>());
  text.Counter("z", "More.", 1e300);
  EXPECT_EQ(text.Take(),
            "# HELP dtrain_x Help.\n# TYPE dtrain_x gauge\ndtrain_x{a=\"q\\\"b\\\\\\nc\",b=\"\"} 0.1\ndtrain_x -Inf\n"
            "# HELP dtrain_z More.\n# TYPE dtrain_z counter\ndtrain_z 1e+300\n");
}

}  // namespace
}  // namespace dtrain::report
