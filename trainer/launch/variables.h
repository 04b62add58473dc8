// Reading launchers' variables: numbers with limits, and messages that quote what was seen.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/launch/launch.h"

namespace dtrain::launch {

constexpr int kMaxRanks = 1'000'000;

// "a, b, c"
std::string Joined(const std::vector<std::string>& words);

// Throws UsageError unless 0 ≤ value < limit.
void RequireBelow(int value, int limit, const std::string& value_name, const std::string& limit_name,
                  const std::string& seen);

// The variables of one launcher. Empty ones count as unset: container tools pass them on that way.
class Variables {
 public:
  // `names`: what Seen() tells of. The environment must outlive this.
  Variables(const Environment& environment, std::vector<std::string> names)
      : environment_(environment), names_(std::move(names)) {}

  std::string Text(const std::string& name) const;  // "" where it is not set
  bool Has(const std::string& name) const { return !Text(name).empty(); }

  // The first of these names that is set; "" where none is.
  std::string FirstSet(const std::vector<std::string>& names) const;

  // Nothing where it is not set; throws UsageError where it is no number in these limits.
  std::optional<int> Number(const std::string& name, int minimum, int maximum) const;

  // Throws UsageError naming `launcher`, what was seen and what is missing, unless all are set.
  void Require(const std::vector<std::string>& names, const std::string& launcher, const std::string& hint) const;

  // "RANK=0, WORLD_SIZE=2"
  std::string Seen() const;

 private:
  const Environment& environment_;
  std::vector<std::string> names_;
};

}  // namespace dtrain::launch
