// The names that flags of ours have in other tools, for the answer to a command line that has them. Flags that can be
// carried over as they are have a row in the table of aliases instead (alias_table.h).
#pragma once

#include <map>
#include <string>

namespace dtrain::config {

// Name (with underscores) → what to write here: "--optimizer".
const std::map<std::string, std::string>& ForeignFlags();

}  // namespace dtrain::config
