// Writes lists into sentences: "train, val".
#pragma once

#include <algorithm>
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

}  // namespace dtrain
