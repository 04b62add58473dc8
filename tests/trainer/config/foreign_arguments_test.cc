// Every argument that is taken from the programs whose commands people paste, as their own parsers have them: none is
// dropped that would change a number. tests/testdata/foreign_arguments.txt lists them by what happens to them:
//   own       it is a flag of ours, too          mapped    it becomes flags of ours
//   harmless  it cannot change a number
// NAME=STANDARD|TRIED: the value that is tried, and the default or another value that changes nothing there. NAME=TRIED
// has none, and NAME takes no value. What follows an @ is another flag of the command, with which alone it counts.
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
  std::string program, expected, word;
  std::set<std::string> seen;
  while (file >> word) {
    if (word.starts_with("#")) {
      std::string title;
      std::getline(file, title);
      std::istringstream(title) >> program;
      program = program.substr(0, program.find_first_of("-:,"));
      std::transform(program.begin(), program.end(), program.begin(), [](unsigned char c) { return std::tolower(c); });
      continue;
    }
    if (word.ends_with(":")) {
      expected = word.substr(0, word.size() - 1);
      continue;
    }
    SCOPED_TRACE(program + ": " + word);
    std::vector<std::string> command = {"--defaults_of=" + program};
    std::string argument = word;
    if (const size_t at = word.find('@'); at != std::string::npos) {
      command.push_back("--" + word.substr(at + 1));
      argument.resize(at);
    }
    const size_t equals = argument.find('='), bar = argument.find('|');
    EXPECT_TRUE(seen.insert(program + argument.substr(0, equals)).second) << "it stands twice";
    if (bar == std::string::npos) {
      EXPECT_EQ(WhatHappensTo("--" + argument, command), expected);
      continue;
    }
    EXPECT_EQ(WhatHappensTo("--" + argument.substr(0, equals + 1) + argument.substr(bar + 1), command), expected);
    EXPECT_NE(WhatHappensTo("--" + argument.substr(0, bar), command), "refused") << "it changes nothing";
  }
  EXPECT_GT(seen.size(), 400U);
}

}  // namespace
}  // namespace dtrain::config
