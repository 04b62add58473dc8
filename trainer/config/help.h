// The text of --help, made from the table of flags: grouped by concern, at most 100 columns wide; and of --help=TOPIC.
#pragma once

#include <string>

#include "trainer/config/command_line.h"

namespace dtrain::config {

std::string Help(const Program& program);

// The flags of a concern (a section's name: data, optimizer, …), else those whose names have `topic` in them. Empty
// where there are none.
std::string HelpOn(const std::string& topic);

// What the first is called: "run | data | …".
std::string HelpTopics();

}  // namespace dtrain::config
