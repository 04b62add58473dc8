#include "models/renaming.h"

#include <algorithm>
#include <optional>

namespace dtrain::models {
namespace {

constexpr char kNumber = '#';

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string Renamed(std::string_view name, std::span<const NamePair> table, std::string_view NamePair::*from,
                    std::string_view NamePair::*to) {
  for (const NamePair& row : table) {
    std::string_view rest = name;
    std::vector<std::string_view> numbers;
    const bool fits = std::ranges::all_of(row.*from, [&](char c) {
      size_t length = 1;
      if (c == kNumber) length = static_cast<size_t>(std::ranges::find_if_not(rest, IsDigit) - rest.begin());
      if (length == 0 || rest.empty() || (c != kNumber && rest.front() != c)) return false;
      if (c == kNumber) numbers.push_back(rest.substr(0, length));
      rest.remove_prefix(length);
      return true;
    });
    if (!fits) continue;
    std::string renamed;
    size_t next = 0;
    for (const char c : row.*to) c == kNumber ? renamed += numbers.at(next++) : renamed += c;
    return renamed.append(rest);
  }
  return "";
}

}  // namespace

std::string OurName(std::string_view theirs, std::span<const NamePair> table) {
  return Renamed(theirs, table, &NamePair::theirs, &NamePair::ours);
}

std::string TheirName(std::string_view ours, std::span<const NamePair> table) {
  return Renamed(ours, table, &NamePair::ours, &NamePair::theirs);
}

NamedWeights WithOurNames(const NamedWeights& weights, std::span<const NamePair> table) {
  NamedWeights renamed = weights;
  for (auto& [name, tensor] : renamed) {
    if (std::string own = OurName(name, table); !own.empty()) name = std::move(own);
  }
  return renamed;
}

NamedWeights WithTheirNames(const NamedWeights& weights, std::span<const NamePair> table) {
  NamedWeights renamed = weights;
  for (auto& [name, tensor] : renamed) {
    name = TheirName(name, table);
    if (name.empty()) return {};
  }
  return renamed;
}

std::vector<int64_t> SizesIn(const WeightShapes& weights, const std::string& name) {
  const auto found = weights.find(name);
  return found == weights.end() ? std::vector<int64_t>() : found->second;
}

bool AnyBegins(const WeightShapes& weights, const std::string& start) {
  const auto found = weights.lower_bound(start);
  return found != weights.end() && found->first.starts_with(start);
}

}  // namespace dtrain::models
