#include "trainer/launch/variables.h"

#include "data/joined.h"
#include "data/whole_number.h"
#include "trainer/errors.h"

namespace dtrain::launch {

void RequireBelow(int value, int limit, const std::string& value_name, const std::string& limit_name,
                  const std::string& seen) {
  if (value >= 0 && value < limit) return;
  throw UsageError(value_name + " (" + std::to_string(value) + ") is not from 0 to " + limit_name + " - 1 (" +
                       std::to_string(limit - 1) + ")",
                   "seen: " + seen);
}

std::string Variables::Text(const std::string& name) const {
  const auto found = environment_.find(name);
  return found == environment_.end() ? "" : found->second;
}

std::string Variables::FirstSet(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    if (Has(name)) return name;
  }
  return "";
}

std::optional<int> Variables::Number(const std::string& name, int minimum, int maximum) const {
  if (!Has(name)) return std::nullopt;
  const auto number = data::WholeNumber<int>(Text(name));
  if (number && *number >= minimum && *number <= maximum) return number;
  throw UsageError(name + "=" + Text(name) + ": expected a whole number, " + std::to_string(minimum) + " to " +
                       std::to_string(maximum),
                   "seen: " + Seen());
}

void Variables::Require(const std::vector<std::string>& names, const std::string& launcher,
                        const std::string& hint) const {
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    if (!Has(name)) missing.push_back(name);
  }
  if (missing.empty()) return;
  throw UsageError(launcher + "'s variables are half set: " + Seen() + " set, " + Joined(missing) + " missing", hint);
}

std::string Variables::Seen() const {
  std::vector<std::string> seen;
  for (const std::string& name : names_) {
    if (Has(name)) seen.push_back(name + "=" + Text(name));
  }
  return Joined(seen);
}

}  // namespace dtrain::launch
