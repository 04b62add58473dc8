// Names that our flags have in other programs, for the hint if a command line has one of them. Flags that can be
// translated automatically have a row in the table of aliases instead (alias_table.h).
#pragma once

#include <map>
#include <string>

namespace dtrain::config {

// Returns a map from a foreign name (with underscores) to the text that says what to use here: "--optimizer".
const std::map<std::string, std::string>& ForeignFlags();

}  // namespace dtrain::config
