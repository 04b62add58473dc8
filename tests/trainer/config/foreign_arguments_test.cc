// Every argument of the programs whose commands people paste, as their own parsers have them: none is dropped that
// would change a number. tests/testdata/foreign_arguments.txt has a line for each: its name, its default or another
// value that changes nothing there (-: it has none), a value that is tried (flag: it takes none), and what happens:
//   own       it is a flag of ours, too          mapped    it becomes flags of ours
//   harmless  it cannot change a number          refused   the command ends with an error
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "trainer/config/aliases.h"
#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

std::string WhatHappensTo(const std::string& text) {
  std::vector<std::string> mistakes;
  const std::vector<command_line::Argument> arguments = RewriteAliases({{text, ""}}, mistakes).arguments;
  if (!mistakes.empty()) return "refused";
  if (arguments.empty()) return "harmless";
  for (const command_line::Argument& argument : arguments) {
    const std::string name = FlagName(argument);
    if (FindFlag(name) == nullptr && (!name.starts_with("no") || FindFlag(name.substr(2)) == nullptr)) return "refused";
  }
  return arguments.size() == 1 && arguments.front().text == text ? "own" : "mapped";
}

TEST(ForeignArguments, AreMappedOrRefusedOrHarmless) {
  std::ifstream file(TESTDATA_DIR "/foreign_arguments.txt");
  ASSERT_TRUE(file.is_open());
  std::string program, line;
  std::set<std::string> seen;
  while (std::getline(file, line)) {
    if (line.starts_with("# ")) program = line.substr(2);
    if (line.empty() || line.starts_with("#")) continue;
    std::istringstream columns(line);
    std::string name, standard, tried, expected;
    ASSERT_TRUE(columns >> name >> standard >> tried >> expected) << line;
    SCOPED_TRACE(program + ": " + line);
    EXPECT_TRUE(seen.insert(program + name).second) << "the line stands twice";
    EXPECT_EQ(WhatHappensTo("--" + name + (tried == "flag" ? "" : "=" + tried)), expected);
    if (standard == "-") continue;
    EXPECT_NE(WhatHappensTo("--" + name + "=" + standard), "refused") << "it changes nothing";
  }
  EXPECT_GT(seen.size(), 300U);
}

}  // namespace
}  // namespace dtrain::config
