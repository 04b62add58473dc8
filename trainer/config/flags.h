// The table of flags: one entry has everything that is known of a flag, its name, its field in Config, its range, unit
// and help, and which tasks, resumes, ranks and files of weights ask for it. Parsing, --help, the checks, config.json,
// checkpoints and the handshake of the ranks all read this table; there is no other list of flags by name, except those
// of a family of models (models/family.h) and of an optimizer (choices.h).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/outputs.h"
#include "trainer/config/config.h"

namespace dtrain::config {

// The value of a field; monostate: an empty optional.
using Value = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<double>>;

enum class Kind { kBool, kInteger, kNumber, kText, kNumbers };

// The values that a flag accepts: the numbers of an interval, one of some words, or anything.
struct Limits {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool minimum_excluded = false;
  bool maximum_excluded = false;
  size_t count = 0;           // of a list: how many numbers, up to three; 0: any
  bool is_ascending = false;  // a list: none is less than the one before
  std::vector<std::string> choices = {};
  std::string descriptions = {};                    // of the choices, for the help
  bool (*also)(const std::string& text) = nullptr;  // whether a text that is none of the choices is allowed, too
  std::string also_text = {};                       // what it allows, for people

  // Never allows NaN and infinities. Checks texts against the choices only.
  bool Allow(const Value& value) const;
  // Returns "1 or more", "0 to 1 (excluded)", "one of a | b", or an empty string if anything is allowed. Says nothing
  // of how many numbers a list has.
  std::string Text() const;
};

// What has to be given, too, for a flag to mean anything.
struct Companion {
  std::string_view needed;  // for people: "--ema_decay"
  std::string_view why;
  bool (*is_there)(const Config& config);
};

// What only some flags are.
struct FlagTraits {
  unsigned used_by = 0;  // tasks that have one of these TaskTraits (choices.h); 0: as its section
  std::vector<std::string_view> also_off = {};  // values besides the default that change nothing where it is not used
  bool same_on_resume = false;                  // a checkpoint that was made with another value is refused
  bool kept_with_weights = false;  // files of weights have it, and --mode=eval, predict and export take it from them
  bool own_to_each_rank = false;   // the ranks of a run may have different values
  bool of_training = true;         // it can change the numbers of a training; false in a section where none does
  bool secret = false;             // its value is for no file and no log
  bool needs_crops = false;        // it has an effect on randomly cropped images only
  bool changes_no_result = false;  // it says where a run lies, who runs it or what it prints: reports do not compare it
  const Companion* companion = nullptr;  // without it, another value than the default is refused
  // What DescribeOptimizer and DescribeAugmentation call it; in brackets if it is boolean.
  std::string_view shown = {};
  data::PathUse path = data::PathUse::kNone;  // what is written must pass trainer/modes/outputs.h, which tests try
};

struct Flag {
  std::string name;
  std::string section;  // the member of Config that it belongs to: "data", "optimizer", …
  Kind kind = Kind::kText;
  Limits limits;
  std::string unit;
  std::string help;
  std::function<Value(const Config&)> get;
  // Copies the value that gflags parsed last into the field. Returns false if a list of numbers holds anything else.
  std::function<bool(Config&)> store;
  FlagTraits traits = {};
};

// A member of Config, with what is the same for all of its flags.
struct Section {
  std::string_view name, title;
  unsigned used_by = 0;  // 0: all tasks
  bool of_training = true;
  bool changes_no_result = false;
};

// Returns all sections, in the order of the help.
const std::vector<Section>& Sections();

// Returns all flags, in the order of the help.
const std::vector<Flag>& Flags();

// Returns the names of the flags that have a trait: FlagsWith(&FlagTraits::same_on_resume).
std::vector<std::string> FlagsWith(bool FlagTraits::*trait);

// Returns the flag `name` (with underscores), or null.
const Flag* FindFlag(const std::string& name);

// Whether the flag `name` was on the command line or in a flag file.
bool WasGiven(const Config& config, const std::string& name);

// Whether a flag's value is the default, or means the same.
bool IsOff(const Flag& flag, const Config& config);

// Sets a flag's field from `text`, as the command line does. Returns false if `text` is not of the flag's kind; limits
// are not checked.
bool Set(const Flag& flag, const std::string& text, Config& config);

// Describes the allowed values, for messages about mistakes: "a whole number, 1 or more".
std::string Expected(Kind kind, const Limits& limits);

// Returns the number that the whole of `text` spells, in decimal digits; empty if it is anything else, or too large or
// too small for a double.
std::optional<double> NumberFrom(const std::string& text);

// Returns the numbers of a list with commas between them, none of an empty text; nullopt if `text` is anything else.
std::optional<std::vector<double>> NumberListFrom(const std::string& text);

// Returns the text that one would write after --flag=; an empty string for monostate.
std::string ToText(const Value& value);

}  // namespace dtrain::config
