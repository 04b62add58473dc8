// Which words' tags make an entity, such as the name of a person, and how many were found: seqeval's counts.
#pragma once

#include <set>
#include <span>
#include <string>
#include <tuple>

namespace dtrain::tasks {

// A tag in its two parts: `B-PER` is B and PER, O is O and _.
struct Tag {
  char prefix = 'O';
  std::string type = "_";
};
Tag TagFrom(const std::string& name);

using Entity = std::tuple<std::string, size_t, size_t>;  // its type, its first and its last word

// Returns the entities of a sentence as seqeval's get_entities does, in any scheme: an entity begins with B or S, with
// a tag of another type than the one before, or with an I or E behind what ends one. So an I without a B counts.
std::set<Entity> EntitiesIn(std::span<const Tag> tags);

// Returns those that seqeval counts with mode="strict": B-PER I-PER* and nothing else (IOB2), or with `has_ends` also
// S-PER, and B-PER I-PER* E-PER alone (IOBES).
std::set<Entity> StrictEntitiesIn(std::span<const Tag> tags, bool has_ends);

}  // namespace dtrain::tasks
