#include "trainer/loop/training_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace dtrain::loop
