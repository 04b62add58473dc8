// "1 file", "2 files": a number and its noun, as a sentence has them.
#pragma once

#include <cstdint>
#include <string>

namespace dtrain {

// `noun` in the singular, of those whose plural has an s, or es after an s. Its last word is the one that changes.
inline std::string CountOf(int64_t count, const std::string& noun) {
  const std::string ending = count == 1 ? "" : noun.ends_with('s') ? "es" : "s";
  return std::to_string(count) + " " + noun + ending;
}

}  // namespace dtrain
