// The second stage of a command line: from expanded arguments (arguments.h) to named flags with values. It knows no
// flag by name: each program brings a list, and what becomes of a value is the list's to say. Shared by all programs,
// so that they take the same spellings and make the same suggestions.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/command_line/arguments.h"

namespace dtrain::command_line {

struct Flag {
  std::string name;  // with underscores
  bool is_boolean = false;
  std::string expected;                          // "a whole number, 1 or more": what a bad value is held against
  std::function<bool(const std::string&)> take;  // stores a value; false where it is malformed
  bool takes_many = false;  // words behind its value are values, too: --input A B; `take` is called for each
};

struct Parsed {
  std::string command;  // the first word, where the program has commands
  bool wants_help = false;
  std::string help_topic;  // of --help=TOPIC, with underscores
  bool wants_version = false;
};

// What an unknown flag's answer says besides: of a name with underscores, what to write here ("--optimizer").
using Hints = std::map<std::string, std::string>;

// Takes --flag=value, --flag value, --flag and --noflag for booleans, dashes and underscores alike. Where `commands` is
// not empty, the first argument must be one of them. Adds a sentence to `mistakes` for each thing that is wrong.
Parsed Parse(std::vector<Argument> arguments, const std::vector<std::string>& commands, const std::vector<Flag>& flags,
             std::vector<std::string>& mistakes, const Hints& hints = {});

// A flag with a longer value is a mistake: no name of a file is longer, and nobody reads a message with more.
inline constexpr size_t kMostValueBytes = 4096;

// The mistakes as the text of an error, one a line. Of a long one the middle is left out, and of many the rest.
std::string TextOf(const std::vector<std::string>& mistakes);

// The value of a boolean: true, t, yes, y, 1 → "true"; false, f, no, n, 0 → "false"; else empty.
std::string BooleanWord(const std::string& value);

}  // namespace dtrain::command_line
