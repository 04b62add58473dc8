// The text of --help, made from the table of flags: grouped by concern, at most 100 columns wide.
#pragma once

#include <string>

#include "trainer/config/command_line.h"

namespace dtrain::config {

std::string Help(const Program& program);

}  // namespace dtrain::config
