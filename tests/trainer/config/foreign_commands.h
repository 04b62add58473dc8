// Compares a command of another program with one of dtrain_main.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trainer/config/command_line.h"
#include "trainer/config/config_json.h"

namespace dtrain::config {

using Arguments = std::vector<std::string>;

// Expects that a foreign command means the same as `ours`.
inline void ExpectSame(const Arguments& theirs, const Arguments& ours) {
  EXPECT_EQ(ToJson(ParseCommandLine(theirs).config), ToJson(ParseCommandLine(ours).config));
}

}  // namespace dtrain::config
