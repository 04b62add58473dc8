// Names of weights in two programs, as a table of the beginnings that differ.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "models/weight_names.h"

namespace dtrain::models {

// Beginnings of names. A # stands for a number, which is the same in both.
struct NamePair {
  std::string_view ours, theirs;
};

// Returns the name with the beginning that the first fitting row gives it; empty if none fits.
std::string OurName(std::string_view theirs, std::span<const NamePair> table);
std::string TheirName(std::string_view ours, std::span<const NamePair> table);

// Renames all weights. Names that no row fits are kept.
NamedWeights WithOurNames(const NamedWeights& weights, std::span<const NamePair> table);
// The same, but returns nothing if a name fits no row: theirs is no such model.
NamedWeights WithTheirNames(const NamedWeights& weights, std::span<const NamePair> table);

// Returns the sizes of the weights with this name; none if there are none.
std::vector<int64_t> SizesIn(const WeightShapes& weights, const std::string& name);

// Returns whether a name begins like this.
bool AnyBegins(const WeightShapes& weights, const std::string& start);

}  // namespace dtrain::models
