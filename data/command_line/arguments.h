// The first stage of the command line: replaces every --flagfile by the flags in it, in place, so that a later flag
// overrides an earlier one wherever the two stand. It knows no other flag; trainer/config/aliases.h rewrites its
// result.
#pragma once

#include <string>
#include <vector>

namespace dtrain::command_line {

// Who gave an argument: the user, a flagfile that is a JSON object, the user by another program's flag, or that program
// as its own default.
enum class Origin { kUser, kJson, kTranslated, kDefault };

struct Argument {
  std::string text;   // "--name=value", "--name", "value"
  std::string place;  // what a message begins with: "FILE:LINE: " or the flag that it stands for; else empty
  Origin origin = Origin::kUser;
};

// The limits for all flagfiles together, so that an endless file or an endless chain of includes is a mistake.
inline constexpr size_t kMostFlagfileBytes = size_t{1} << 20;
inline constexpr int kMostFlagfiles = 100;

// Returns the arguments with all flagfiles expanded. A flagfile has one flag per line, or is a JSON object whose keys
// are flags, such as a run's config.json. In JSON, null and empty strings are ignored. If its object `start` has the
// list `given`, only the flags in that list are taken, so that values derived from them are derived again.
//
// Appends a sentence to `mistakes` for each flagfile that cannot be read, includes itself or holds anything other than
// flags, and one if the flagfiles exceed the limits. A relative name in a flagfile is looked up beside that flagfile,
// then in the working directory.
std::vector<Argument> ExpandFlagfiles(const std::vector<std::string>& arguments, std::vector<std::string>& mistakes);

}  // namespace dtrain::command_line
