// The flags that people's commands already have: fairseq's, torchvision's, NVIDIA's and others', as a table
// (alias_table.h). Each becomes flags of ours, or is named in a note with the reason why it means nothing here:
// none is dropped without a word.
#pragma once

#include <string>
#include <vector>

#include "data/command_line/arguments.h"

namespace dtrain::config {

struct Rewritten {
  std::vector<command_line::Argument> arguments;
  std::vector<std::string> notes;  // for people: what was left out, and why
};

// Between expanding flagfiles and parsing. What a foreign flag implies comes first, so that anything said in so many
// words wins. Adds a sentence to `mistakes` for each foreign flag whose value is not understood. Arguments without a
// foreign flag come back as they are.
Rewritten RewriteAliases(const std::vector<command_line::Argument>& arguments, std::vector<std::string>& mistakes);

}  // namespace dtrain::config
