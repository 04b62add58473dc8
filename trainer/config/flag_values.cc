// Checks limits and formats values. It is apart from flags.cc so that that file stays a plain list.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "data/joined.h"
#include "trainer/config/flags.h"

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

}  // namespace

bool Limits::Allow(const Value& value) const {
  if (const auto* number = std::get_if<int64_t>(&value)) return AllowNumber(*this, static_cast<double>(*number));
  if (const auto* number = std::get_if<double>(&value)) return AllowNumber(*this, *number);
  if (const auto* text = std::get_if<std::string>(&value)) {
    return choices.empty() || std::find(choices.begin(), choices.end(), *text) != choices.end() ||
           (also != nullptr && also(*text));
  }
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) {
    return std::all_of(numbers->begin(), numbers->end(), [this](double number) { return AllowNumber(*this, number); });
  }
  return true;
}

std::string Limits::Text() const {
  if (!choices.empty()) return "one of " + Joined(choices, " | ") + (also == nullptr ? "" : ", or " + also_text);
  const bool low = std::isfinite(minimum);
  const bool high = std::isfinite(maximum);
  if (low && high) {
    const std::string excluded = minimum_excluded ? " (both excluded)" : maximum_excluded ? " (excluded)" : "";
    return Shortest(minimum) + " to " + Shortest(maximum) + excluded;
  }
  if (low) return minimum_excluded ? "more than " + Shortest(minimum) : Shortest(minimum) + " or more";
  return {};
}

std::string Expected(Kind kind, const Limits& limits) {
  static const std::vector<std::string> kinds = {"true or false", "a whole number", "a finite number", "a text",
                                                 "finite numbers with commas between them"};
  std::string range = limits.Text();
  if (!limits.choices.empty()) return range;
  return kinds[static_cast<size_t>(kind)] + (range.empty() ? "" : ", " + range);
}

std::string WhyNoNumber(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return {};
  if (text.find_first_of("xX") != std::string::npos) return "it is in hexadecimal";
  return errno == ERANGE && std::abs(number) < 1 ? "it is too small to be told from 0" : "";
}

std::optional<double> NumberFrom(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !WhyNoNumber(text).empty()) return std::nullopt;
  return number;
}

std::string ToText(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) return Shortest(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const auto* numbers = std::get_if<std::vector<double>>(&value);
  return numbers == nullptr ? "" : Joined(*numbers, ",", Shortest);
}

}  // namespace dtrain::config
