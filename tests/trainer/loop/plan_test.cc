// Step counts of published runs, and the edges of the definitions.
#include "trainer/loop/plan.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "data/pipeline/sampler.h"
#include "tests/words.h"
#include "trainer/config/command_line.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/loop/saving.h"
#include "trainer/loop/training_state.h"

namespace dtrain::loop {
namespace {

using ::testing::Optional;

constexpr int64_t kImageNet = 1'281'167;

// The plan of a training whose units are its samples.
Plan Planned(const std::string& flags, int64_t samples = 100, int world_size = 1) {
  config::Config config = config::ParseCommandLine(Words(flags)).config;
  config::Resolve(config, world_size);
  return MakePlan(config, samples, world_size, samples,
                  config::ResolveBatch(config.batch, world_size).global_batch_size);
}

// As math.ceil(0.07 * 100), the warmup of Hugging Face's Trainer.
TEST(Plan, AFractionIsRoundedUp) {
  EXPECT_EQ(Planned("--batch_size=10 --epochs=10 --warmup_fraction=0.07").WarmupSteps(), 8);
}

TEST(Plan, CountsTheStepsOfTheAwsRuns) {
  const Plan plan =
      Planned("--batch_size=256 --epochs=90 --lr=0.1 --lr_base_batch=256 --warmup_epochs=10", kImageNet, 32);
  EXPECT_EQ(plan.batch.global_batch_size, 8192);
  EXPECT_EQ(plan.total_steps, 14'075);
  EXPECT_EQ(plan.WarmupSteps(), 1563);
  EXPECT_DOUBLE_EQ(plan.schedule.peak, 3.2);
  EXPECT_DOUBLE_EQ(Planned("--batch_size=64 --epochs=1", 1000, 2).schedule.peak, 0.1 * 128 / 256);  // the default
}

TEST(Plan, AnEpochEndsAtTheFirstStepThatCoversIt) {
  const Plan plan = Planned("--batch_size=30 --epochs=3");  // 3⅓ steps per epoch
  EXPECT_EQ(plan.total_steps, 10);
  std::vector<int64_t> ends;
  for (int64_t step = 0; step <= plan.total_steps; ++step) {
    if (plan.EndsEpoch(step)) ends.push_back(step);
  }
  EXPECT_EQ(ends, (std::vector<int64_t>{4, 7, 10}));
  std::vector<int64_t> numbers;
  for (int64_t step = 1; step <= plan.total_steps; ++step) numbers.push_back(plan.EpochNumber(step));
  EXPECT_EQ(numbers, (std::vector<int64_t>{1, 1, 1, 1, 2, 2, 2, 3, 3, 3}));
}

TEST(Plan, AnEpochBeginsAtTheFirstStepThatBeginsInIt) {
  const Plan plan =
      Planned("--batch_size=30 --epochs=30");  // step 4 begins at sample 90, step 5 at sample 120 of the stream
  EXPECT_EQ(plan.FirstStepOf(0), 1);
  EXPECT_EQ(plan.FirstStepOf(1), 5);
  EXPECT_EQ(plan.FirstStepOf(3), 11);  // at sample 300 exactly
  EXPECT_EQ(plan.FirstStepOf(3'000'000), 10'000'001);
  const data::TrainSampler sampler(100, 30, 0, data::Shuffle::kNone, data::LastBatch::kStream, 1, {{0, 8}, {1, 16}});
  EXPECT_EQ(sampler.GlobalBatch(3).front().size, 8);
  EXPECT_EQ(sampler.GlobalBatch(4).front().size, 16);
}

TEST(Plan, DropCutsEachEpochAndTheFirstEndCounts) {
  const Plan plan = Planned("--batch_size=30 --epochs=3 --last_batch=drop");
  EXPECT_EQ(plan.steps_per_epoch, 3);
  EXPECT_EQ(plan.total_steps, 9);
  EXPECT_TRUE(plan.EndsEpoch(6));
  EXPECT_EQ(Planned("--batch_size=10 --epochs=2 --max_steps=7").total_steps, 7);
  EXPECT_EQ(Planned("--batch_size=10 --epochs=2 --max_steps=700").total_steps, 20);
  EXPECT_EQ(Planned("--batch_size=10 --epochs=1e300 --max_steps=7").total_steps, 7);  // more than can be counted
  EXPECT_THROW(Planned("--batch_size=200 --epochs=1"), UsageError);
}

TEST(Plan, ScheduleStepsOutliveTheRun) {
  const Plan plan = Planned("--batch_size=10 --epochs=2 --lr=0.1 --schedule_steps=40");
  EXPECT_EQ(plan.total_steps, 20);
  EXPECT_DOUBLE_EQ(plan.LearningRate(20), 0.1 * 0.25);
}

// Rates that change by epoch end with the last epoch, not with the last whole step: here 33⅓ steps, 3⅓ in an epoch.
TEST(Plan, ARateForEachEpochEndsWithTheEpochs) {
  const std::string flags = "--batch_size=30 --lr=1 --lr_schedule=poly --poly_power=1 --lr_per_epoch --epochs=10";
  const Plan plan = Planned(flags + " --warmup_epochs=1");
  EXPECT_EQ(plan.total_steps, 33);
  EXPECT_EQ(plan.WarmupSteps(), 3);
  for (const int epoch : {1, 2, 9}) {
    EXPECT_DOUBLE_EQ(plan.LearningRate(plan.FirstStepOf(epoch) - 1), (10.0 - epoch) / 9) << epoch;
  }
  EXPECT_NEAR(Planned(flags + " --max_steps=20").LearningRate(14), 1 - 4 / 6.0, 1e-12);  // in epoch 5 of 6
}

TEST(Plan, StepsAreExactInAnyRun) {
  using Wide = __int128;
  for (const int64_t samples : std::vector<int64_t>{100, 977, 50'000, kImageNet, 300'000'000, 12'000'000'001}) {
    for (const int64_t global_batch : {1LL, 3LL, 4LL, 96LL, 8192LL}) {
      for (const int64_t hundredths : {30LL, 70LL, 110LL, 230LL, 240LL, 3000LL, 9000LL}) {
        if (Wide{hundredths} * samples < 100 * global_batch) continue;
        config::Config config;
        config.batch.batch_size = global_batch;
        config.optimizer.lr = 0.1;
        config.batch.epochs = static_cast<double>(hundredths) / 100;
        const Plan plan = MakePlan(config, samples, 1, samples, global_batch);
        const auto expected = static_cast<int64_t>(Wide{hundredths} * samples / (100 * Wide{global_batch}));
        ASSERT_EQ(plan.total_steps, expected) << samples << " / " << global_batch << ", " << hundredths;
        for (int64_t step = std::max<int64_t>(expected - 3, 0); step <= expected; ++step) {
          ASSERT_EQ(plan.EpochsDone(step), static_cast<int64_t>(Wide{step} * global_batch / samples)) << step;
        }
        for (const int64_t epoch : {1LL, 2LL, 3LL, 30LL, 89LL}) {
          const Wide before = Wide{epoch} * samples;
          ASSERT_EQ(plan.FirstStepOf(epoch), 1 + static_cast<int64_t>((before + global_batch - 1) / global_batch));
        }
      }
    }
  }
}

TEST(Plan, EverythingIsDueAtTheEnd) {
  const Plan plan = Planned("--batch_size=10 --epochs=1 --eval_every_epochs=0 --save_every_epochs=0", 95);
  EXPECT_EQ(plan.total_steps, 9);
  EXPECT_FALSE(plan.ShouldEvaluate(8));
  EXPECT_TRUE(plan.ShouldEvaluate(9));
  EXPECT_TRUE(plan.ShouldSave(9));
  EXPECT_TRUE(plan.ShouldLog(9));
  EXPECT_FALSE(plan.EndsEpoch(9));  // 90 of 95 samples
}

TEST(Plan, SomethingIsDueEveryFewStepsBesidesTheEpochs) {
  const Plan plan = Planned(
      "--batch_size=10 --epochs=2 --eval_every_steps=4 --save_every_steps=6 --save_every_epochs=0 --log_interval=10");
  std::vector<int64_t> evaluated, saved, logged;
  for (int64_t step = 0; step <= plan.total_steps; ++step) {
    if (plan.ShouldEvaluate(step)) evaluated.push_back(step);
    if (plan.ShouldSave(step)) saved.push_back(step);
    if (step > 0 && plan.ShouldLog(step)) logged.push_back(step);
  }
  EXPECT_EQ(evaluated, (std::vector<int64_t>{4, 8, 10, 12, 16, 20}));
  EXPECT_EQ(saved, (std::vector<int64_t>{6, 12, 18, 20}));
  EXPECT_EQ(logged, (std::vector<int64_t>{1, 10, 20}));
  EXPECT_EQ(plan.EvaluatedEpoch(12), 1.2);
}

// As in fairseq, where a run is cut by its updates or epochs; its rate is still rising then.
TEST(Plan, AWarmupMayBeLongerThanTheRun) {
  const std::string flags = "--batch_size=10 --epochs=2 --lr=0.4 --warmup_epochs=";
  EXPECT_EQ(Planned(flags + "2").WarningOfWarmup(), "");
  for (const char* through : {"", " --schedule_through_warmup"}) {
    const Plan plan = Planned(flags + "8" + through);
    EXPECT_DOUBLE_EQ(plan.LearningRate(16), 0.08);
    EXPECT_DOUBLE_EQ(plan.LearningRate(19), 0.095);
    EXPECT_EQ(plan.WarningOfWarmup(),
              "the run of 20 steps ends in the warmup of 80: its learning rate reaches 0.095 of a peak of 0.4");
  }
}

Progress At(int64_t step, int64_t best_step) {
  Progress progress;
  progress.step = step;
  progress.validation = report::ValPoint{.step = step, .metrics = {{"top1", 70, 2, true}}};
  progress.best = report::ValPoint{.step = best_step, .metrics = {{"top1", 75.926, 2, true}}};
  return progress;
}

// 105 samples in batches of 10: an epoch has 10.5 steps, so epochs end at steps 11, 21, 32, 42, 53 …
std::string Why(double patience, double eval_every_epochs, const Progress& progress) {
  return Planned("--batch_size=10 --epochs=20 --eval_every_epochs=" + std::to_string(eval_every_epochs) +
                     " --stop_after_epochs_without_gain=" + std::to_string(patience),
                 105)
      .WhyStopsEarly(progress);
}

TEST(WhyStopsEarly, CountsEvaluationsNotFractionsOfEpochs) {
  EXPECT_EQ(Why(2, 1, At(32, 21)), "");
  EXPECT_EQ(Why(2, 1, At(42, 21)), "no better top1 than 75.93 of step 21 in 2 epochs");  // 42 − 21 = exactly 2 epochs
  EXPECT_NE(Why(2, 1, At(53, 32)), "");
  EXPECT_NE(Why(1, 1, At(21, 11)), "");  // 10 steps, less than an epoch of 10.5
  EXPECT_NE(Why(1, 0.5, At(16, 6)), "");
  EXPECT_EQ(Why(1, 0.5, At(11, 6)), "");
  EXPECT_NE(Why(0.2, 0.2, At(9, 7)), "");  // 0.8 - 0.6 is less than 0.2 in floating point
  EXPECT_NE(Why(3, 2, At(63, 21)), "");    // an evaluation every two epochs: 4 epochs without gain
  EXPECT_EQ(Why(3, 2, At(42, 21)), "");
  // The best one was evaluated with another interval, after an epoch.
  EXPECT_EQ(Why(4, 4, At(42, 11)), "");
  EXPECT_NE(Why(3, 4, At(42, 11)), "");
}

TEST(WhyStopsEarly, NotWithoutBeingAskedOrEvaluated) {
  EXPECT_EQ(Why(0, 1, At(210, 11)), "");
  EXPECT_EQ(Why(2, 1, At(21, 21)), "");
  EXPECT_EQ(Why(2, 1, Progress{}), "");
  Progress not_yet = At(42, 21);
  not_yet.step = 43;
  EXPECT_EQ(Why(2, 1, not_yet), "");
}

SaveInterval IntervalOf(const std::string& seconds, double hours = 24) {
  config::RunConfig config;
  config.save_every_seconds = seconds;
  config.expected_hours_between_faults = hours;
  return SaveInterval(config);
}

TEST(DalyInterval, IsThatOfThePaper) {
  EXPECT_NEAR(DalyInterval(5, 0, 1000), 100 * (1 + 0.05 / 3 + 0.0025 / 9) - 5, 1e-9);  // 96.6944
  EXPECT_DOUBLE_EQ(DalyInterval(5, 300, 1000), 300);  // no save begins before the last one is written
  EXPECT_DOUBLE_EQ(DalyInterval(3000, 0, 1000), 1000);
}

TEST(SaveInterval, IsTheGivenOneWhateverSavesCost) {
  SaveInterval interval = IntervalOf("2.5");
  interval.Note(100, 1000);
  EXPECT_THAT(interval.seconds(), Optional(2.5));
  EXPECT_EQ(IntervalOf("0").seconds(), std::nullopt);
}

TEST(SaveInterval, FollowsWhatSavesCost) {
  SaveInterval interval = IntervalOf("auto", 1000.0 / 3600);
  EXPECT_THAT(interval.seconds(), Optional(SaveInterval::kFirstSeconds));
  interval.Note(5, std::nullopt);
  EXPECT_NEAR(*interval.seconds(), 96.6944 + 5, 1e-4);
  interval.Note(7, 1.0);  // a mean of 6
  EXPECT_NEAR(*interval.seconds(), DalyInterval(6, 1, 1000) + 6, 1e-9);
  interval.Note(6, 500.0);  // the disk has become slow
  EXPECT_NEAR(*interval.seconds(), 506, 1e-9);
}

}  // namespace
}  // namespace dtrain::loop
