#include "trainer/launch/time_limit.h"

#include <gtest/gtest.h>

namespace dtrain::launch {
namespace {

constexpr std::time_t kNow = 1'800'000'000;

double Seconds(std::optional<double> max_hours, const std::string& end_time) {
  const Environment environment = {{"SLURM_JOB_END_TIME", end_time}};
  const auto limit = FindTimeLimit(max_hours, environment, kNow);
  return limit ? limit->seconds : -1;
}

TEST(TimeLimit, OfTheFlag) {
  EXPECT_EQ(Seconds(0.5, ""), 1800);
  EXPECT_EQ(Seconds(0.5, "1800000600"), 1800);
  EXPECT_EQ(Seconds(0, "1800000600"), -1);
  EXPECT_FALSE(FindTimeLimit({}, {}, kNow));
}

TEST(TimeLimit, OfSlurm) {
  EXPECT_EQ(Seconds({}, "1800003600"), 3600 - 180);
  EXPECT_EQ(Seconds({}, "1800000100"), 50);
  for (const char* none : {"1800000000", "1700000000", "0", "-1", "", "soon", "1800003600s"}) {
    EXPECT_EQ(Seconds({}, none), -1) << none;
  }
}

}  // namespace
}  // namespace dtrain::launch
