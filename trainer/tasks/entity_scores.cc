#include "trainer/tasks/entity_scores.h"

#include <string_view>

namespace dtrain::tasks {
namespace {

bool IsOneOf(char prefix, std::string_view prefixes) { return prefixes.find(prefix) != std::string_view::npos; }

bool IsInside(char prefix) { return prefix != 'O' && prefix != '.'; }

// Whether an entity ends between two tags.
bool EndsBetween(const Tag& before, const Tag& tag) {
  if (IsOneOf(before.prefix, "ES")) return true;
  if (IsOneOf(before.prefix, "BI") && IsOneOf(tag.prefix, "BSO")) return true;
  return IsInside(before.prefix) && before.type != tag.type;
}

bool BeginsBetween(const Tag& before, const Tag& tag) {
  if (IsOneOf(tag.prefix, "BS")) return true;
  if (IsOneOf(before.prefix, "ESO") && IsOneOf(tag.prefix, "EI")) return true;
  return IsInside(tag.prefix) && before.type != tag.type;
}

}  // namespace

Tag TagFrom(const std::string& name) {
  const size_t dash = name.find('-', 1);
  const std::string type = name.substr(dash == std::string::npos ? 1 : dash + 1);
  return {name.front(), type.empty() ? "_" : type};
}

std::set<Entity> EntitiesIn(std::span<const Tag> tags) {
  std::set<Entity> entities;
  Tag before;
  size_t first = 0;
  for (size_t i = 0; i <= tags.size(); ++i) {
    const Tag tag = i < tags.size() ? tags[i] : Tag();
    if (EndsBetween(before, tag)) entities.emplace(before.type, first, i - 1);
    if (BeginsBetween(before, tag)) first = i;
    before = tag;
  }
  return entities;
}

std::set<Entity> StrictEntitiesIn(std::span<const Tag> tags, bool has_ends) {
  std::set<Entity> entities;
  for (size_t first = 0; first < tags.size();) {
    const Tag& tag = tags[first];
    size_t end = first + 1;
    if (has_ends && tag.prefix == 'S') entities.emplace(tag.type, first, first);
    if (tag.prefix == 'B') {
      const std::string_view inner = has_ends ? "IE" : "I";
      while (end < tags.size() && IsOneOf(tags[end].prefix, inner) && tags[end].type == tag.type &&
             tags[end - 1].prefix != 'E')
        ++end;
      if (!has_ends || tags[end - 1].prefix == 'E') entities.emplace(tag.type, first, end - 1);
    }
    first = end;
  }
  return entities;
}

}  // namespace dtrain::tasks
