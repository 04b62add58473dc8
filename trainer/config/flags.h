// The table of flags: one entry ties a name to its field in Config, its range, its unit and its help. Parsing, --help,
// the range checks and config.json all read this table, so they cannot drift apart.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "trainer/config/config.h"

namespace dtrain::config {

// A field's value; monostate: an optional that was not said.
using Value = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<double>>;

enum class Kind { kBool, kInteger, kNumber, kText, kNumbers };

// What a flag accepts: numbers of an interval, or one of some words, or anything.
struct Limits {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool minimum_excluded = false;
  bool maximum_excluded = false;
  std::vector<std::string> choices = {};

  // NaN and infinities are in no interval. Texts are held against the choices only.
  bool Allow(const Value& value) const;
  // "1 or more", "0 to 1 (1 excluded)", "one of a | b"; empty: anything.
  std::string Text() const;
};

struct Flag {
  std::string name;
  std::string section;  // the member of Config that it belongs to: "data", "optimizer", …
  Kind kind = Kind::kText;
  Limits limits;
  std::string unit;
  std::string help;
  std::function<Value(const Config&)> get;
  // Copies what gflags parsed last into the field; false where a comma list holds something else than numbers.
  std::function<bool(Config&)> store;
};

// All flags, in the order of the help.
const std::vector<Flag>& Flags();

// The flag of this name (underscores), or null.
const Flag* FindFlag(const std::string& name);

// Whether the flag of this name was on the command line.
bool WasGiven(const Config& config, const std::string& name);

// Gives a flag the value that `text` says, as the command line does; false where it says none.
bool Set(const Flag& flag, const std::string& text, Config& config);

// "a whole number, 1 or more": what a mistake in such a flag's value is held against.
std::string Expected(Kind kind, const Limits& limits);

// The number that all of `text` is; nothing where it is something else.
std::optional<double> NumberFrom(const std::string& text);

// As one would write it after --flag=; empty for monostate.
std::string ToText(const Value& value);

}  // namespace dtrain::config
