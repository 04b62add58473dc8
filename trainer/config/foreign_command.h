// Reads single flags of a command before it is parsed, for flags of other programs whose meaning depends on other
// flags.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/command_line/arguments.h"

namespace dtrain::config {

// Returns the name of a flag with underscores, or nothing for a word that is no flag.
std::string FlagName(const command_line::Argument& argument);

// Returns the value of the flag at this place: after its '=', or the next argument.
std::string FlagValue(const std::vector<command_line::Argument>& arguments, size_t place);

// A whole command. Names have underscores.
class ForeignCommand {
 public:
  explicit ForeignCommand(const std::vector<command_line::Argument>& arguments) : arguments_(arguments) {}

  // Returns the value of the last of these flags; empty if there is none of them.
  std::optional<std::string> Find(const std::vector<std::string>& names) const;
  std::string Value(const std::vector<std::string>& names, const std::string& otherwise) const;
  // The same for a number: `otherwise` also if the value is none.
  double Number(const std::vector<std::string>& names, double otherwise) const;
  bool Has(const std::vector<std::string>& names) const { return Find(names).has_value(); }
  // Returns the values of the last of these flags that takes several words, with commas between them.
  std::string Numbers(const std::vector<std::string>& names, const std::string& otherwise) const;

 private:
  const std::vector<command_line::Argument>& arguments_;
};

// Returns the value at `place` with the numbers that follow it in words of their own: "0.08 1.0" is "0.08,1.0". Moves
// `place` to the last of these words. Brackets are left out.
std::string NumbersFrom(const std::vector<command_line::Argument>& arguments, size_t& place, std::string first);

std::string WithoutBrackets(std::string value);

}  // namespace dtrain::config
