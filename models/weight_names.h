// Names of weights, here and in other programs, as a table of the beginnings that differ.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain::models {

using NamedWeights = std::vector<std::pair<std::string, at::Tensor>>;
using WeightShapes = std::map<std::string, std::vector<int64_t>>;  // by name

WeightShapes ShapesOf(const NamedWeights& weights);

// Returns the sizes of the weights with this name; none if there are none.
std::vector<int64_t> SizesIn(const WeightShapes& weights, const std::string& name);

// Returns the rows of the first matrix with this name, in any module; 0 if there is none.
int64_t RowsNamed(const WeightShapes& weights, std::string_view name);

// Returns the tensor with this name; undefined if there is none.
at::Tensor Find(const NamedWeights& weights, std::string_view name);

// Return whether a name begins like this, and whether one is this with one of the prefixes, or without.
bool AnyBegins(const WeightShapes& weights, const std::string& start);
bool ContainsWithin(const WeightShapes& weights, std::span<const std::string_view> prefixes, const std::string& name);

// Returns the number of blocks PREFIX0., PREFIX1. …
int64_t CountBlocks(const WeightShapes& weights, const std::string& prefix);

// What the blocks of stages are called: {"layer", 1, "."} for layer1.0., layer2.0. …
struct StageNames {
  std::string before;
  int64_t first;
  std::string behind;
};

// For Model::fits: whether the weights have so many blocks in each stage.
bool HaveBlocks(const WeightShapes& weights, const StageNames& names, std::span<const int64_t> blocks);

// Beginnings of names. A # stands for a number, which is the same in both, an @ for one that is counted from 1 here and
// from 0 there.
struct NamePair {
  std::string_view ours, theirs;
};

// Renames all weights by the first row that fits. Names that no row fits are kept.
NamedWeights WithOurNames(const NamedWeights& weights, std::span<const NamePair> table);
// The same in the other direction. kRefused: returns nothing if a name fits no row: theirs is no such model.
enum class Unknown { kRefused, kKept };
NamedWeights WithTheirNames(const NamedWeights& weights, std::span<const NamePair> table,
                            Unknown unknown = Unknown::kRefused);

// Replaces the beginning of a name, if it begins like this.
void ReplaceStart(std::string& name, std::string_view start, std::string_view instead);
NamedWeights WithoutPrefixes(NamedWeights weights, std::span<const std::string_view> prefixes);
// Puts a prefix before all names but those with `head` in them.
NamedWeights WithPrefix(NamedWeights weights, std::string_view prefix, std::string_view head);

// Cuts the rows of each tensor with `whole` in its name in equal parts, which have their names instead. One that has no
// so many rows is kept.
NamedWeights WithSplit(const NamedWeights& weights, std::string_view whole, std::span<const std::string_view> parts);

// The counterpart: puts tensors whose names differ in the part alone one below the other, in the order of the parts.
// Those of which a part is missing are left out.
NamedWeights WithJoined(const NamedWeights& weights, std::span<const std::string_view> parts, std::string_view whole);

// Where a BatchNorm's ε is larger here than there, adds what it is larger by to the variances, so that logits do not
// change; in float32 at least. Returns whether the weights have variances: other norms have none that could carry it.
bool MoveEpsilon(NamedWeights& weights, double more);

// Leaves those of such names out, and appends the names to `left_out`, if that is not null.
void LeaveOut(NamedWeights& weights, const std::function<bool(const std::string& name)>& is_out,
              std::vector<std::string>* left_out);

}  // namespace dtrain::models
