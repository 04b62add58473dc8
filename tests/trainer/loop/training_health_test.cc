#include "trainer/loop/training_health.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/message_of.h"

namespace dtrain::loop {
namespace {

using testing::HasSubstr;

// Returns the warning for one more line.
std::string Said(SkippedSteps& steps, int64_t step, int64_t skipped, std::optional<double> scale = std::nullopt) {
  testing::internal::CaptureStderr();
  steps.Line(step, skipped, scale);
  return testing::internal::GetCapturedStderr();
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
    testing::internal::CaptureStderr();
    nothing.Line(step, samples, steps);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said(10, 0, 0), "");
  EXPECT_THAT(said(20, 3, 0), HasSubstr("from samples without a token (3 by step 20)"));
  EXPECT_THAT(said(30, 4, 1), HasSubstr("weigh nothing (1 by step 30)"));
  EXPECT_EQ(said(40, 5, 6), "");
}

TEST(WarnOfWaiting, SpeaksOfWhatIsLoaded) {
  const auto said = [&](WaitsFor waits_for) {
    testing::internal::CaptureStderr();
    WarnOfWaiting(0.25, waits_for, 4);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said(WaitsFor::kMaskingThreads), testing::AllOf(HasSubstr("25 % of the time; masking needs more cores"),
                                                              testing::Not(HasSubstr("image"))));
  EXPECT_THAT(said(WaitsFor::kImageThreads), HasSubstr("pack the images resized"));
  EXPECT_THAT(said(WaitsFor::kCachedStorage), testing::Not(HasSubstr("--cache")));
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
    return report::ValPoint{.metrics = {{.name = "loss", .value = loss}, {.name = "pearson", .value = pearson}}};
  };
  EXPECT_TRUE(HasFiniteLoss(point(1, nan)));
  report::ValPoint lost = point(nan, 1), both = point(1, 1);
  EXPECT_FALSE(HasFiniteLoss(lost));
  both.further = {lost};
  EXPECT_FALSE(HasFiniteLoss(both));
  lost.text = report::TextCounts{.guessed = 0};
  EXPECT_TRUE(HasFiniteLoss(lost));
}

}  // namespace
}  // namespace dtrain::loop
