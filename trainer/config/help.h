// The texts of --help and --help=TOPIC, made from the table of flags: grouped by concern, at most 100 columns wide.
#pragma once

#include <string>

#include "trainer/config/command_line.h"

namespace dtrain::config {

std::string Help(const Program& program);

// Returns --help=json: {"program", "version", "commands", "flags"}. Each flag has "name", "type", "default", "help"
// and, as far as they say something, "unit", "minimum", "maximum" (and whether they are excluded), "choices", "tasks"
// (those that use it, if not all do) and "aliases" (its names in other programs).
std::string HelpJson(const Program& program);

// If `topic` names a section (data, optimizer, …), returns the help on its flags, otherwise on the flags whose names
// contain `topic`. Returns an empty string if there are none.
std::string HelpOn(const std::string& topic);

// Returns the names of the sections: "run | data | …".
std::string HelpTopics();

}  // namespace dtrain::config
