#include "trainer/report/points.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dtrain::report {
namespace {

Metric Of(double value, bool higher_is_better) { return {"m", value, 2, higher_is_better}; }

TEST(IsBetter, GoesTheMetricsOwnWay) {
  EXPECT_TRUE(IsBetter(Of(2, true), Of(1, true)));
  EXPECT_FALSE(IsBetter(Of(1, true), Of(1, true)));
  EXPECT_TRUE(IsBetter(Of(1, false), Of(2, false)));
  EXPECT_FALSE(IsBetter(Of(2, false), Of(1, false)));
}

TEST(IsBetter, AnyNumberBeatsNaN) {
  const double nan = std::nan("");
  for (const bool higher : {false, true}) {
    EXPECT_TRUE(IsBetter(Of(1, higher), Of(nan, higher)));
    EXPECT_FALSE(IsBetter(Of(nan, higher), Of(1, higher)));
    EXPECT_FALSE(IsBetter(Of(nan, higher), Of(nan, higher)));
  }
}

}  // namespace
}  // namespace dtrain::report
