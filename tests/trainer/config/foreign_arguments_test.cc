// Every argument of the programs whose commands people paste, as their own parsers have them: none is dropped that
// would change a number. tests/testdata/foreign_arguments.txt has a line for each: its name, its default or another
// value that changes nothing there (-: it has none), a value that is tried (flag: it takes none), and what happens:
//   own       it is a flag of ours, too          mapped    it becomes flags of ours
//   harmless  it cannot change a number          refused   the command ends with an error
// Further words on a line are other flags that the command has, because the first counts with them only.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>

#include "trainer/config/aliases.h"
#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

// Returns the flags that a command becomes; nothing if it is refused.
std::optional<std::multiset<std::string>> FlagsOf(const std::vector<std::string>& command) {
  std::vector<command_line::Argument> arguments;
  for (const std::string& text : command) arguments.push_back({text, ""});
  std::vector<std::string> mistakes;
  std::multiset<std::string> flags;
  for (const command_line::Argument& argument : RewriteAliases(arguments, mistakes).arguments) {
    const std::string name = FlagName(argument);
    const bool is_negated = name.starts_with("no") && FindFlag(name.substr(2)) != nullptr;
    if (FindFlag(name) == nullptr && !is_negated) return std::nullopt;
    flags.insert(argument.text);
  }
  if (!mistakes.empty()) return std::nullopt;
  return flags;
}

std::string WhatHappensTo(const std::string& text, std::vector<std::string> command) {
  const auto without = FlagsOf(command);
  command.push_back(text);
  const auto with = FlagsOf(command);
  if (!with) return "refused";
  std::multiset<std::string> added;
  std::set_difference(with->begin(), with->end(), without->begin(), without->end(), std::inserter(added, added.end()));
  if (added.empty() && with->size() >= without->size()) return "harmless";
  return added == std::multiset<std::string>{text} ? "own" : "mapped";
}

TEST(ForeignArguments, AreMappedOrRefusedOrHarmless) {
  std::ifstream file(TESTDATA_DIR "/foreign_arguments.txt");
  ASSERT_TRUE(file.is_open());
  std::string program, line;
  std::set<std::string> seen;
  while (std::getline(file, line)) {
    if (line.starts_with("# ")) {
      program = line.substr(2, line.find_first_of(" -:,", 2) - 2);
      std::transform(program.begin(), program.end(), program.begin(), [](unsigned char c) { return std::tolower(c); });
    }
    if (line.empty() || line.starts_with("#")) continue;
    std::istringstream columns(line);
    std::string name, standard, tried, expected;
    ASSERT_TRUE(columns >> name >> standard >> tried >> expected) << line;
    SCOPED_TRACE(program + ": " + line);
    EXPECT_TRUE(seen.insert(program + name).second) << "the line stands twice";
    std::vector<std::string> command = {"--defaults_of=" + program};
    for (std::string more; columns >> more;) command.push_back(more);
    EXPECT_EQ(WhatHappensTo("--" + name + (tried == "flag" ? "" : "=" + tried), command), expected);
    if (standard == "-") continue;
    EXPECT_NE(WhatHappensTo("--" + name + "=" + standard, command), "refused") << "it changes nothing";
  }
  EXPECT_GT(seen.size(), 300U);
}

}  // namespace
}  // namespace dtrain::config
