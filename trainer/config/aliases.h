// Translates the flags of other training programs (alias_table.h), so that the commands people already have keep
// working. A foreign flag becomes flags of ours; one that has no effect here is named in a note with the reason, never
// silently dropped.
#pragma once

#include <string>
#include <vector>

#include "data/command_line/arguments.h"

namespace dtrain::config {

struct Rewritten {
  std::vector<command_line::Argument> arguments;
  std::vector<std::string> notes;  // for people: the flags that have no effect or another meaning, and why
};

// Called after flagfiles are expanded and before arguments are parsed. The flags that foreign flags imply come first in
// the result, so that a flag given explicitly overrides them. Adds a sentence to `mistakes` for each foreign flag whose
// value is missing or not understood. All other arguments are passed on unchanged.
Rewritten RewriteAliases(const std::vector<command_line::Argument>& arguments, std::vector<std::string>& mistakes);

}  // namespace dtrain::config
