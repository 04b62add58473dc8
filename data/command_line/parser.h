// The command line, in two stages: every --flagfile is replaced by the flags in it, in place, so that a later flag
// overrides an earlier one wherever the two stand; then arguments become named flags with values. Between the two,
// trainer/config/aliases.h rewrites flags of other programs. Neither stage knows a flag by name but these: each program
// brings a list of flags, whose functions store the values. All programs share it, so that they accept the same
// spellings and make the same suggestions.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace dtrain::command_line {

// ---- Arguments (arguments.cc) ----

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

// ---- Flags ----

struct Flag {
  std::string name;  // with underscores
  bool is_boolean = false;
  std::string expected;                          // the values it takes, for messages: "a whole number, 1 or more"
  std::function<bool(const std::string&)> take;  // stores a value; returns false if it is malformed
  bool takes_many = false;  // further words are values, too (--input A B); `take` is called for each
};

struct Parsed {
  std::string command;  // the first word; empty if the program has no commands
  bool wants_help = false;
  std::string help_topic;  // of --help=TOPIC, with underscores
  bool wants_version = false;
};

// Hints for unknown flags: maps a name with underscores to the flag to use instead ("--optimizer").
using Hints = std::map<std::string, std::string>;

// Accepts --flag=value and --flag value, and --flag and --noflag for booleans; dashes and underscores are equal. If
// `commands` is not empty, the first argument must be one of them. Appends a sentence to `mistakes` for every mistake.
Parsed Parse(std::vector<Argument> arguments, const std::vector<std::string>& commands, const std::vector<Flag>& flags,
             std::vector<std::string>& mistakes, const Hints& hints = {});

// Returns "did you mean PREFIXname?" of the candidate nearest to a mistyped `name`, by the number of typing errors. An
// empty string if none differs from it by at most a third of its letters, or by one if that is more, or if `name` has
// more than 64 letters.
std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates,
                       const std::string& prefix = "");

// The longest value that a flag may have: no file name is longer, and a message with more would be unreadable.
inline constexpr size_t kMostValueBytes = 4096;

// Returns the mistakes as the text of an error, one per line. Omits the middle of a mistake above 1,000 bytes and all
// mistakes after the 50th.
std::string TextOf(const std::vector<std::string>& mistakes);

// Returns "true" for true, t, yes, y and 1, "false" for false, f, no, n and 0, and an empty string for anything else.
std::string BooleanWord(const std::string& value);

}  // namespace dtrain::command_line
