// What a reader of --help relies on.
#include "trainer/config/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <regex>
#include <sstream>

namespace dtrain::config {
namespace {

using testing::HasSubstr;

TEST(Help, FitsInAHundredColumns) {
  std::istringstream stream(Help({}));
  for (std::string line; std::getline(stream, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(Help, HasEveryFlagOnceWithDefaultAndRange) {
  const std::string help = Help({});
  for (const Flag& flag : Flags()) {
    const std::string dashes = flag.kind == Kind::kBool ? R"(\n  --\[no\])" : R"(\n  --)";
    const std::regex entry(dashes + flag.name + "[ =\n]");
    const auto matches = std::distance(std::sregex_iterator(help.begin(), help.end(), entry), std::sregex_iterator());
    EXPECT_EQ(matches, 1) << flag.name;
  }
  EXPECT_THAT(help, HasSubstr("[default: 0.9; 0 to 1 (excluded)]"));
  EXPECT_THAT(help, HasSubstr("[default: not given; steps, 1 or more]"));
}

TEST(Help, NamesCommandsAndOwnFlags) {
  const std::string help = Help({.name = "dtrain_bench",
                                 .purpose = "Measures.",
                                 .commands = {"step", "loader"},
                                 .flags = {{"json", Kind::kBool, "false", "One object as the last line."}}});
  EXPECT_THAT(help, HasSubstr("Usage: dtrain_bench step|loader [--flag=value ...]\nMeasures.\n"));
  EXPECT_THAT(help, HasSubstr("--[no]json                One object as the last line. [default: false]"));
}

}  // namespace
}  // namespace dtrain::config
