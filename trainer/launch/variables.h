// Reads the variables of launchers. Numbers have limits, and error messages quote the variables that were seen.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/launch/launch.h"

namespace dtrain::launch {

constexpr int kMaxRanks = 1'000'000;

// Throws UsageError that names both and quotes `seen` unless 0 ≤ value < limit.
void RequireBelow(int value, int limit, const std::string& value_name, const std::string& limit_name,
                  const std::string& seen);

// The variables of one launcher. An empty variable counts as unset, since container tools pass unset ones on that way.
class Variables {
 public:
  // `names` are the variables that Seen quotes. `environment` must outlive this object.
  Variables(const Environment& environment, std::vector<std::string> names)
      : environment_(environment), names_(std::move(names)) {}

  std::string Text(const std::string& name) const;  // empty if it is not set
  bool Has(const std::string& name) const { return !Text(name).empty(); }

  // Returns the first of these names that is set; empty if none is.
  std::string FirstSet(const std::vector<std::string>& names) const;

  // Returns empty if it is not set. Throws UsageError if it is not a whole number from `minimum` to `maximum`.
  std::optional<int> Number(const std::string& name, int minimum, int maximum) const;

  // Throws UsageError naming `launcher`, the variables seen and the missing ones unless all of `names` are set.
  void Require(const std::vector<std::string>& names, const std::string& launcher, const std::string& hint) const;

  // Returns those that are set, for messages: "RANK=0, WORLD_SIZE=2".
  std::string Seen() const;

 private:
  const Environment& environment_;
  std::vector<std::string> names_;
};

}  // namespace dtrain::launch
