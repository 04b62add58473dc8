#include "trainer/loop/training_health.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/message_of.h"
#include "trainer/loop/step_computation.h"

namespace dtrain::loop {
namespace {

using testing::HasSubstr;

template <typename Call>
std::string WarningOf(const Call& call) {
  testing::internal::CaptureStderr();
  call();
  return testing::internal::GetCapturedStderr();
}

// Returns the warning for one more line.
std::string Said(SkippedSteps& steps, int64_t step, int64_t skipped, std::optional<double> scale = std::nullopt) {
  return WarningOf([&] { steps.Line(step, skipped, scale); });
}

TEST(SkippedSteps, IsSaidOnceAndWhenItsNumberHasDoubled) {
  SkippedSteps steps;
  EXPECT_THAT(Said(steps, 1, 1, 32768), HasSubstr("1 step skipped so far (step 1): the gradients were not finite; the "
                                                  "loss scale, now 32768, is adapting"));
  EXPECT_EQ(Said(steps, 20, 0), "");
  EXPECT_THAT(Said(steps, 40, 1), HasSubstr("2 steps skipped so far (the last among steps 21 to 40): "));
  EXPECT_EQ(Said(steps, 60, 1), "");
  EXPECT_THAT(Said(steps, 80, 2), HasSubstr("5 steps skipped so far"));
}

TEST(SkippedSteps, OfARunThatGoesOnAreThoseOfThisStart) {
  SkippedSteps steps(110);
  EXPECT_THAT(Said(steps, 120, 3), HasSubstr("3 steps skipped so far (among steps 111 to 120): "));
}

TEST(NothingToLearn, IsSaidOnce) {
  NothingToLearn nothing;
  const auto said = [&](int64_t step, int64_t samples, int64_t steps) {
    return WarningOf([&] { nothing.Line(step, samples, steps); });
  };
  EXPECT_EQ(said(10, 0, 0), "");
  EXPECT_THAT(said(20, 3, 0), HasSubstr("from samples without a token (3 by step 20)"));
  EXPECT_THAT(said(30, 4, 1), HasSubstr("weigh nothing (1 by step 30)"));
  EXPECT_EQ(said(40, 5, 6), "");
}

TEST(WarnOfWaiting, SpeaksOfWhatIsLoaded) {
  const auto said = [](bool for_storage, bool of_images) {
    return WarningOf([&] { WarnOfWaiting(0.25, for_storage, 4, of_images); });
  };
  EXPECT_THAT(said(false, true), HasSubstr("25 % of the time; preparing batches needs more cores"));
  EXPECT_THAT(said(false, true), HasSubstr("pack images"));
  EXPECT_THAT(said(true, true), HasSubstr("pack small files into shards, use --shuffle=shard, or"));
  EXPECT_THAT(said(true, false), HasSubstr("copy the data first, use --shuffle=shard, or keep the data in memory"));
  EXPECT_THAT(said(false, false), testing::Not(HasSubstr("pack")));
}

TEST(RequireGoodEnd, ARunThatEndsWithoutHavingLearnedHasDiverged) {
  const auto message = [](const RunEnd& end) { return MessageOf([&] { RequireGoodEnd(end); }); };
  EXPECT_EQ(message({.step = 1000, .skipped_in_a_row = 29, .most_skipped = 30}), "") << "a row may begin before an end";
  EXPECT_THAT(message({.step = 10, .skipped_in_a_row = 9, .most_skipped = 30}),
              HasSubstr("not finite in 9 steps in a row"));
  EXPECT_EQ(message({.step = 10, .skipped_in_a_row = 4, .most_skipped = 30}), "");
  EXPECT_EQ(message({.step = 2, .skipped_in_a_row = 2, .most_skipped = 30}), "") << "a loss scale comes down";
  EXPECT_THAT(message({.step = 7, .most_skipped = 30, .loss_is_finite = false}),
              HasSubstr("after 7 steps the loss is not"));
}

TEST(HasFiniteLoss, LeavesOutWhatWasNotMeasured) {
  const double nan = std::nan("");
  const auto point = [](double loss, double pearson) {
    return report::ValPoint{.metrics = {{.name = "loss", .value = loss}, {.name = "pearson_loss", .value = pearson}}};
  };
  EXPECT_TRUE(HasFiniteLoss(point(1, nan)));
  report::ValPoint lost = point(nan, 1), both = point(1, 1);
  EXPECT_FALSE(HasFiniteLoss(lost));
  both.further = {lost};
  EXPECT_FALSE(HasFiniteLoss(both));
  lost.text = report::TextCounts{.guessed = 0};
  EXPECT_TRUE(HasFiniteLoss(lost));
}

// ---- The definition of a spike, computed by hand beside the operations of the device ----

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kWeightOfStep = 4;

constexpr int64_t kWindow = SpikeWatch::kWindow;

config::OptimizerConfig WatchedBy(double factor) {
  config::OptimizerConfig config;
  config.spike_factor = factor;
  return config;
}

// Returns whether the loss is a spike. Losses are exact in float32.
bool Look(SpikeWatch& watch, double loss, double weight = kWeightOfStep) {
  at::Tensor sums = at::zeros({kNumStepSums});
  sums[kLossSum] = loss * weight;
  sums[kWeight] = weight;
  return watch.Step(sums).item<float>() == 1;
}

TEST(SpikeWatch, FindsWhatIsBeyondTheBound) {
  SpikeWatch watch(WatchedBy(3), {}, at::kCPU);
  std::vector<double> losses;
  for (int64_t step = 1; step <= kWindow + 30; ++step) losses.push_back(2 + 0.25 * static_cast<double>(step % 5));
  losses[kWindow - 1] = 100;  // beyond the bound, but too early
  losses[kWindow + 6] = losses[kWindow + 9] = 80;
  losses[kWindow + 11] = 300;
  double mean = 0, variance = 0;
  std::vector<int64_t> expected, found;
  for (size_t i = 0; i < losses.size(); ++i) {
    const auto step = static_cast<int64_t>(i) + 1;
    const double bound = mean + 3 * std::sqrt(variance);
    const bool is_spike = step > kWindow && losses[i] > bound;
    if (is_spike) expected.push_back(step);
    EXPECT_EQ(Look(watch, losses[i]), is_spike) << "step " << step << ", bound " << bound;
    const double share = 1.0 / static_cast<double>(std::min(step, kWindow));
    const double distance = (is_spike ? bound : losses[i]) - mean;
    mean += share * distance;
    variance = (1 - share) * (variance + share * distance * distance);
    EXPECT_NEAR(watch.Losses().mean, mean, 1e-12 * mean);
    EXPECT_NEAR(watch.Losses().variance, variance, 1e-12 * variance + 1e-20);
  }
  EXPECT_EQ(expected, (std::vector<int64_t>{kWindow + 7, kWindow + 10, kWindow + 12}));
  const std::vector<Spike> spikes = watch.Take(static_cast<int64_t>(losses.size()) + 100);
  for (const Spike& spike : spikes) found.push_back(spike.step - 100);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(spikes[2].loss, 300);
  EXPECT_LT(spikes[2].mean + 3 * spikes[2].deviation, 300);
}

TEST(SpikeWatch, ForgetsWhatWasTaken) {
  SpikeWatch watch(WatchedBy(2), {.count = kWindow, .mean = 1, .variance = 0.25}, at::kCPU);
  EXPECT_TRUE(watch.Take(6).empty());
  EXPECT_TRUE(Look(watch, 2.5));
  EXPECT_EQ(watch.Take(7).size(), 1U);
  EXPECT_TRUE(watch.Take(7).empty());
  EXPECT_FALSE(Look(watch, 1));
  EXPECT_TRUE(Look(watch, 1e6));
  EXPECT_EQ(watch.Take(9).front().step, 9);
}

TEST(SpikeWatch, WithoutALossNothingChanges) {
  SpikeWatch watch(WatchedBy(2), {.count = 5, .mean = 1, .variance = 0.25}, at::kCPU);
  for (const auto& [loss, weight] : {std::pair{kNaN, 4.0}, {HUGE_VAL, 4.0}, {-HUGE_VAL, 4.0}, {0.0, 0.0}}) {
    EXPECT_FALSE(Look(watch, loss, weight));
  }
  EXPECT_EQ(watch.Losses().count, 5);
  EXPECT_EQ(watch.Losses().mean, 1);
  EXPECT_EQ(watch.Losses().variance, 0.25);
}

TEST(SpikeWatch, ALastingChangeIsSoonNoSpike) {
  SpikeWatch watch(WatchedBy(6), {.count = 1000, .mean = 2, .variance = 0.01}, at::kCPU);
  int spikes = 0;
  for (int step = 0; step < 1000; ++step) spikes += Look(watch, 8) ? 1 : 0;
  EXPECT_GT(spikes, 3);
  EXPECT_LT(spikes, 30);
}

TEST(SpikeWatch, MoreThanCanBeKeptAreCountedAsOne) {
  SpikeWatch watch(WatchedBy(1), {.count = kWindow, .mean = 0, .variance = 1}, at::kCPU);
  double loss = 2;
  for (int64_t i = 0; i < SpikeWatch::kMostKept + 3; ++i, loss *= 4) ASSERT_TRUE(Look(watch, loss));
  const auto spikes = watch.Take(SpikeWatch::kMostKept + 3);
  ASSERT_EQ(static_cast<int64_t>(spikes.size()), SpikeWatch::kMostKept);
  EXPECT_EQ(spikes.back().step, SpikeWatch::kMostKept);
}

TEST(SpikeWatch, ARestoredOneGoesOnTheSameToTheBit) {
  const std::vector<double> losses = {3, 2.125, 2.5, 9, 2.25, 2.0625, 40, 1.875};
  const LossStatistics earlier = {.count = kWindow - 2, .mean = 2, .variance = 0.25};
  SpikeWatch whole(WatchedBy(2.5), earlier, at::kCPU), before(WatchedBy(2.5), earlier, at::kCPU);
  for (size_t i = 0; i < 4; ++i) {
    Look(whole, losses[i]);
    Look(before, losses[i]);
  }
  SpikeWatch after(WatchedBy(2.5), before.Losses(), at::kCPU);
  for (size_t i = 4; i < losses.size(); ++i) EXPECT_EQ(Look(whole, losses[i]), Look(after, losses[i]));
  EXPECT_EQ(whole.Losses().count, after.Losses().count);
  EXPECT_EQ(whole.Losses().mean, after.Losses().mean);
  EXPECT_EQ(whole.Losses().variance, after.Losses().variance);
}

}  // namespace
}  // namespace dtrain::loop
