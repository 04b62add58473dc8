// Checks and formats values, and has the checks that walk over the table: what each row says of its flag, none of them
// knows a flag by name. It is apart from flags.cc so that that file stays a plain list.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "data/command_line/parser.h"
#include "data/joined.h"
#include "trainer/config/choices.h"
#include "trainer/config/flags.h"
#include "trainer/config/problems.h"

namespace dtrain::config {
namespace {

std::string WithDigits(double number, int digits) {
  std::ostringstream stream;
  stream.precision(digits);
  stream << number;
  return stream.str();
}

// Returns a short text that reads back as exactly this number: 0.1 rather than 0.10000000000000001.
std::string Shortest(double number) {
  const std::string text = WithDigits(number, 15);
  return std::strtod(text.c_str(), nullptr) == number ? text : WithDigits(number, 17);
}

bool AllowNumber(const Limits& limits, double number) {
  if (!std::isfinite(number)) return false;
  if (number < limits.minimum || (limits.minimum_excluded && number == limits.minimum)) return false;
  return number < limits.maximum || (!limits.maximum_excluded && number == limits.maximum);
}

using Names = std::vector<std::string_view>;

bool Has(const Names& names, std::string_view name) { return std::ranges::find(names, name) != names.end(); }

// Returns the families that list the flag; empty if it is no option of a family.
Names FamiliesWith(const std::string& flag, const ModelFacts& models) {
  Names families;
  for (const auto& [family, options] : models.families) {
    if (std::ranges::find(options, flag) != options.end()) families.push_back(family);
  }
  return families;
}

// Returns what does not use the flag, and what would, for Problem::unused; an empty string if it is used.
std::string WhoDoesNotUse(const Flag& flag, const Config& config, const ModelFacts& models) {
  const std::string& task = config.run.task;
  const unsigned used_by = flag.traits.used_by;
  const bool is_known = TaskHas(task, ~0U);
  if (used_by != 0 && is_known && !TaskHas(task, used_by)) {
    Names tasks;
    for (const TaskFacts& one : Tasks()) {
      if ((one.has & used_by) != 0) tasks.push_back(one.name);
    }
    return "--task=" + task + " (it is for " + Enumerated(tasks, "and") + ")";
  }
  if (!ScheduleReads(config.schedule.name, flag.name))
    return "--lr_schedule=" + config.schedule.name + " (it is for " + SchedulesWith(flag.name) + ")";
  const Names families = FamiliesWith(flag.name, models);
  if (models.family.empty() || families.empty() || Has(families, models.family)) return "";
  return "--model=" + config.model.name + " (it is for " + Enumerated(families, "and") + ")";
}

bool HasProblem(const std::vector<Problem>& problems, const std::string& flag) {
  return std::ranges::count(problems, flag, &Problem::flag) > 0;
}

}  // namespace

bool Limits::Allow(const Value& value) const {
  if (const auto* number = std::get_if<int64_t>(&value)) return AllowNumber(*this, static_cast<double>(*number));
  if (const auto* number = std::get_if<double>(&value)) return AllowNumber(*this, *number);
  if (const auto* text = std::get_if<std::string>(&value)) {
    return choices.empty() || std::ranges::find(choices, *text) != choices.end() || (also != nullptr && also(*text));
  }
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) {
    return (count == 0 || numbers->size() == count) && (!is_ascending || std::ranges::is_sorted(*numbers)) &&
           std::ranges::all_of(*numbers, [this](double number) { return AllowNumber(*this, number); });
  }
  return true;
}

std::string Limits::Text() const {
  if (!choices.empty()) return "one of " + Joined(choices, " | ") + (also == nullptr ? "" : ", or " + also_text);
  const bool low = std::isfinite(minimum);
  const bool high = std::isfinite(maximum);
  if (low && high && minimum_excluded && !maximum_excluded) {
    return "more than " + Shortest(minimum) + " and up to " + Shortest(maximum);
  }
  if (low && high) {
    const std::string excluded = minimum_excluded ? " (both excluded)" : maximum_excluded ? " (excluded)" : "";
    return Shortest(minimum) + " to " + Shortest(maximum) + excluded;
  }
  if (low) return minimum_excluded ? "more than " + Shortest(minimum) : Shortest(minimum) + " or more";
  return {};
}

std::string Expected(Kind kind, const Limits& limits) {
  static const std::vector<std::string> kinds = {"true or false", "a whole number", "a finite number", "a text"};
  static const std::vector<std::string> counts = {"", "one ", "two ", "three "};
  std::string range = limits.Text();
  if (!limits.choices.empty()) return range;
  std::string expected = kind == Kind::kNumbers ? counts.at(limits.count) + "finite numbers with commas between them"
                                                : kinds.at(static_cast<size_t>(kind));
  if (limits.is_ascending) expected += ", the first not greater than the second";
  return expected + (range.empty() ? "" : ", " + range);
}

std::optional<double> NumberFrom(const std::string& text) {
  double number = 0;
  const char *begin = text.data(), *const end = begin + text.size();
  while (begin != end && *begin == ' ') ++begin;
  if (end - begin > 1 && *begin == '+' && begin[1] != '-') ++begin;
  const auto [rest, error] = std::from_chars(begin, end, number);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

std::optional<std::vector<double>> NumberListFrom(const std::string& text) {
  std::vector<double> numbers;
  if (text.empty()) return numbers;
  std::istringstream stream(text + ",");
  for (std::string item; std::getline(stream, item, ',');) {
    const std::optional<double> number = NumberFrom(item);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::string ToText(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) return Shortest(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const auto* numbers = std::get_if<std::vector<double>>(&value);
  return numbers == nullptr ? "" : Joined(*numbers, ",", Shortest);
}

std::string ShownValue(const Flag& flag, const Config& config) {
  const std::string text = ToText(flag.get(config));
  if (flag.traits.secret && !text.empty()) return "…";
  return text.empty() && text != ToText(flag.get(Config())) ? "\"\"" : text;
}

std::vector<Problem> OutOfRange(const Config& config) {
  std::vector<Problem> problems;
  for (const Flag& flag : Flags()) {
    const Value value = flag.get(config);
    if (flag.limits.Allow(value)) continue;
    const auto* text = std::get_if<std::string>(&value);
    problems.push_back({.flag = flag.name,
                        .value = ShownValue(flag, config),
                        .expected = Expected(flag.kind, flag.limits),
                        .hint = text ? command_line::DidYouMean(*text, flag.limits.choices) : ""});
  }
  return problems;
}

void CheckCompanions(const Config& config, std::vector<Problem>& problems) {
  for (const Flag& flag : Flags()) {
    const Companion* companion = flag.traits.companion;
    if (companion == nullptr || !WasGiven(config, flag.name) || IsOff(flag, config)) continue;
    if (companion->is_there(config)) continue;
    problems.push_back({.flag = flag.name,
                        .expected = std::string(companion->needed) + " with it",
                        .hint = std::string(companion->why)});
  }
}

void CheckUses(const Config& config, const ModelFacts& models, std::vector<Problem>& problems) {
  for (const Flag& flag : Flags()) {
    if (!WasGiven(config, flag.name) || HasProblem(problems, flag.name) || IsOff(flag, config)) continue;
    const std::string unused = WhoDoesNotUse(flag, config, models);
    if (!unused.empty()) problems.push_back({.flag = flag.name, .hint = "leave it out", .unused = unused});
  }
}

std::string FlagsThatNeedCrops(const Config& config) {
  std::vector<std::string> flags;
  for (const Flag& flag : Flags()) {
    if (flag.traits.needs_crops && !IsOff(flag, config)) flags.push_back("--" + flag.name);
  }
  return Joined(flags);
}

}  // namespace dtrain::config
