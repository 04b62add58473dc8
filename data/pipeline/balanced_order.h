// --sampling=balanced: epochs in which each class occurs equally often. Unlike a sampler that draws with weights, it
// wastes no sample to chance: a large class gives its samples in turn, over several epochs, and a small one gives each
// as often as any other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrain::data {

class BalancedOrder {
 public:
  // `labels` are those of all samples, in the order of their indices. Throws DataError if one is negative: the data has
  // no labels.
  explicit BalancedOrder(const std::vector<int64_t>& labels);

  // One sample of an epoch, and how often it has occurred in this epoch before.
  struct Place {
    int64_t index = 0, repeat = 0;
  };

  // Returns as many places as there are samples. Classes differ by at most one in how often they occur, in each epoch
  // and over all epochs so far. The result depends on the labels, the seed and the epoch alone.
  std::vector<Place> Epoch(int64_t seed, int64_t epoch) const;

 private:
  void AppendClass(size_t group, int64_t first, int64_t end, int64_t seed, std::vector<Place>& places) const;

  int64_t samples_;
  std::vector<std::vector<int64_t>> groups_;  // the samples of each class that has any
};

}  // namespace dtrain::data
