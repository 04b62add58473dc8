// Formats a number with its noun: "1 file", "2 files".
#pragma once

#include <cstdint>
#include <string>

namespace dtrain {

// `noun` is in the singular and forms its plural with "s", or with "es" if it ends in "s". Only its last word changes.
inline std::string CountOf(int64_t count, const std::string& noun) {
  const std::string ending = count == 1 ? "" : noun.ends_with('s') ? "es" : "s";
  return std::to_string(count) + " " + noun + ending;
}

}  // namespace dtrain
