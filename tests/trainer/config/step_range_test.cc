#include "trainer/config/resolve.h"

#include <gtest/gtest.h>

#include "trainer/config/command_line.h"
#include "trainer/config/problems.h"

namespace dtrain::config {
namespace {

TEST(ParseStepRange, FirstAndLast) {
  EXPECT_EQ(ParseStepRange("10:12"), (StepRange{10, 12}));
  EXPECT_EQ(ParseStepRange("1:1"), (StepRange{1, 1}));
  for (const char* text : {"", ":", "10", "10:", ":12", "12:10", "0:3", "-1:3", "1:2:3", "1-3", "a:b", "1:2 ", "1.5:2",
                           "1:99999999999999999999"}) {
    EXPECT_EQ(ParseStepRange(text), std::nullopt) << text;
  }
}

TEST(ParseStepRange, TheFlagIsChecked) {
  const auto problems_of = [](const std::string& value) {
    return Problems(ParseCommandLine({"--data_dir=somewhere", "--profile_steps=" + value}).config, 1, {}).size();
  };
  EXPECT_EQ(problems_of("3:4"), 0U);
  EXPECT_EQ(problems_of("4:3"), 1U);
}

}  // namespace
}  // namespace dtrain::config
