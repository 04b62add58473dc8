// Compares a command of another program with one of dtrain_main.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/words.h"
#include "trainer/config/command_line.h"
#include "trainer/config/config_json.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {

inline CommandLine Pasted(const std::string& command) { return ParseCommandLine(Words(command)); }

// Expects that a foreign command means the same as `ours`. Most programs leave photographs as they are stored.
inline void ExpectSame(const std::string& theirs, const std::string& ours) {
  std::vector<command_line::Argument> arguments;
  for (const std::string& word : Words(theirs)) arguments.push_back({word, ""});
  const ForeignProgram* program = RecogniseProgram(arguments).program;
  const bool turns = program == nullptr || program->turns_photographs;
  EXPECT_EQ(ToJson(Pasted(theirs).config), ToJson(Pasted(ours + (turns ? "" : " --noexif_orientation")).config));
}

}  // namespace dtrain::config
