// Compares a command of another program with one of dtrain_main.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/words.h"
#include "trainer/config/command_line.h"
#include "trainer/config/config_json.h"

namespace dtrain::config {

inline CommandLine Pasted(const std::string& command) { return ParseCommandLine(Words(command)); }

// Expects that a foreign command means the same as `ours`.
inline void ExpectSame(const std::string& theirs, const std::string& ours) {
  EXPECT_EQ(ToJson(Pasted(theirs).config), ToJson(Pasted(ours).config));
}

}  // namespace dtrain::config
