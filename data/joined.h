// Writes lists and counts into sentences: "train, val", "2 files".
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace dtrain {

// Returns the items with `separator` between them. `text_of` returns the text of an item: a function or a member.
template <typename Items, typename TextOf = std::identity>
std::string Joined(const Items& items, std::string_view separator = ", ", const TextOf& text_of = {}) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += separator;
    text += std::invoke(text_of, item);
  }
  return text;
}

// Returns the first `most` items, and "…" if there are more.
template <typename Items, typename TextOf = std::identity>
std::string FirstOf(const Items& items, size_t most, const TextOf& text_of = {}) {
  return Joined(std::span(items).first(std::min(items.size(), most)), ", ", text_of) +
         (items.size() > most ? ", …" : "");
}

// Returns a number with its noun: "1 file", "2 files". `noun` is in the singular and forms its plural with "s", or with
// "es" if it ends in "s". Only its last word changes.
std::string CountOf(std::integral auto count, const std::string& noun) {
  const std::string ending = count == 1 ? "" : noun.ends_with('s') ? "es" : "s";
  return std::to_string(count) + " " + noun + ending;
}

}  // namespace dtrain
