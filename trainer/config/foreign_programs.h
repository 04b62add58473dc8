// Programs whose whole commands are taken over: if one is recognised by its flags, what it does where a command is
// silent counts here, too, because a pasted command would otherwise train something else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/command_line/arguments.h"
#include "trainer/config/alias_table.h"

namespace dtrain::config {

// A flag that only one program has, with the beginning of its value.
struct Signature {
  std::string_view flag;
  std::string_view value = {};
};

struct ForeignProgram {
  std::string_view name;              // the value of --defaults_of
  std::string_view called;            // for people
  std::vector<Signature> signatures;  // one of them in a typed command is enough
  std::vector<std::string> defaults;  // flags of ours, "--name=value", where its defaults differ from ours
  std::vector<Alias> rows;            // flags whose names other programs have, too, with another meaning
};

// Returns the name of a flag with underscores, or nothing for a word that is no flag.
std::string FlagName(const command_line::Argument& argument);

// Returns the value of the flag at this place: after its '=', or the next argument.
std::string FlagValue(const std::vector<command_line::Argument>& arguments, size_t place);

// Returns the program whose defaults count: that of --defaults_of, or the one whose flags were typed; null if neither.
// Flags in flag files make no program, because our own recipes share some names with others.
const ForeignProgram* RecognisedProgram(const std::vector<command_line::Argument>& arguments);

// Returns the row of the flag `name` (with underscores) in this program (may be null) or in the table of all, or null.
const Alias* FindAlias(std::string_view name, const ForeignProgram* program);

}  // namespace dtrain::config
