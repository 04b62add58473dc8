#include "models/family.h"

namespace dtrain::models {
namespace {

// Returns the number of blocks PREFIX0., PREFIX1. …
int64_t CountBlocks(const WeightShapes& weights, const std::string& prefix) {
  for (int64_t count = 0;; ++count) {
    const std::string block = prefix + std::to_string(count) + ".";
    const auto first = weights.lower_bound(block);
    if (first == weights.end() || !first->first.starts_with(block)) return count;
  }
}

}  // namespace

bool HaveBlocks(const WeightShapes& weights, const std::string& stages, const std::vector<int64_t>& blocks) {
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    if (CountBlocks(weights, stages + std::to_string(stage + 1) + ".") != blocks[stage]) return false;
  }
  return true;
}

}  // namespace dtrain::models
