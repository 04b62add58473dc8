// Assigns samples to batches, as a pure function of its arguments. Global batches are formed first and then divided
// among the ranks, so that the order does not depend on the number of ranks, and any step can be computed directly
// (resume).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/record_source.h"

namespace dtrain::data {

// Progressive resizing: small images in the first epochs, larger ones later. From the beginning of `epoch` (from 0) on,
// images have `size` pixels per side.
struct SizeChange {
  int64_t epoch = 0;
  int64_t size = 0;
  bool operator==(const SizeChange&) const = default;
};

// Epochs ascend and begin with 0. Empty: the decoder's own size in all epochs.
using SizeSchedule = std::vector<SizeChange>;

// Parses "0:160,6:192": 160 pixels in epochs 0 to 5, then 192; "" gives an empty schedule. Returns an empty optional
// for anything else: other words, epochs that do not ascend from 0, sizes outside 1 to 8192.
std::optional<SizeSchedule> ParseSizeSchedule(const std::string& text);

// Returns the size in an epoch; 0 if the schedule is empty.
int64_t SizeAt(const SizeSchedule& schedule, int64_t epoch);

// --sampling=balanced: epochs in which each class occurs equally often. Unlike a sampler that draws with weights, it
// wastes no sample to chance: a large class gives its samples in turn, over several epochs, and a small one gives each
// as often as any other.
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

enum class Shuffle {
  kGlobal,  // each epoch is a permutation of all samples
  kShard,   // each epoch permutes chunks of neighbouring samples, then the samples of every 32 chunks
  kNone,    // file order
};
enum class LastBatch {
  kStream,  // the orders of all epochs form one stream, whose batches may span epochs
  kDrop,    // each epoch has ⌊dataset_size / global_batch⌋ batches; the rest is dropped
};

// Parse the values of --shuffle and --last_batch. Throw std::invalid_argument for any other word.
Shuffle ShuffleFromName(std::string_view name);      // global | shard | none
LastBatch LastBatchFromName(std::string_view name);  // stream | drop

// The training order. Safe to call from many threads.
class TrainSampler {
 public:
  // Throws DataError if no batch can be made: the data set is empty, or with kDrop smaller than a global batch.
  //
  // With `repeats` R > 1 each sample in an epoch's order occurs R times (repeated augmentation, arXiv:1901.09335). An
  // epoch still has dataset_size samples, so it ends after a part of its order. A global batch holds the first copies
  // of its samples, then the second ones, and so on. Therefore, if it is cut into R or more parts among ranks and
  // micro-steps, no part holds a sample twice, as in torchvision's RASampler among ranks; and neighbours, which mixup
  // mixes, differ. (With exactly R parts, a batch that spans two epochs may be an exception.)
  //
  // All samples of a batch have the size that `sizes` gives for the epoch of its first sample.
  //
  // With `balanced`, which implies kGlobal, its order takes the place of permutations.
  //
  // With `shards`, which add up to the data set, an epoch has the samples of one shard only, in turn (kStream only).
  TrainSampler(int64_t dataset_size, int64_t global_batch, int64_t seed, Shuffle shuffle, LastBatch last_batch,
               int64_t repeats = 1, SizeSchedule sizes = {}, std::optional<BalancedOrder> balanced = {},
               std::vector<int64_t> shards = {});

  // Returns the `global_batch` samples of global step `step` (from 0). Sequential calls cost O(global_batch); a call
  // for another epoch computes its permutation, O(dataset_size).
  std::vector<SampleRef> GlobalBatch(int64_t step) const;

 private:
  // Each element is the index of a sample plus dataset_size times the number of its earlier occurrences in the epoch,
  // which are none unless the order is balanced. Null: file order.
  using Order = std::shared_ptr<const std::vector<int64_t>>;

  // The epoch that a position of the stream of samples is in.
  struct EpochOfStream {
    int64_t epoch, begin, length;  // `begin` is a position
    int64_t first_sample;          // of the samples that the epoch has
  };
  EpochOfStream EpochAt(int64_t position) const;
  Order EpochOrder(const EpochOfStream& of) const;
  std::vector<int64_t> MakeOrder(const EpochOfStream& of) const;

  const int64_t dataset_size_, global_batch_, seed_, repeats_;
  const Shuffle shuffle_;
  const LastBatch last_batch_;
  const SizeSchedule sizes_;
  const std::optional<BalancedOrder> balanced_;
  const std::vector<int64_t> shards_;  // empty: the whole data set is one
  mutable std::mutex mutex_;
  mutable std::map<int64_t, Order> orders_;  // orders of the epochs asked for last, by epoch
};

// Returns an order for storage that reads neighbouring records faster: chunks of 64 samples (some megabytes of
// photographs) in random order, and the samples of each 32 successive chunks shuffled.
std::vector<int64_t> ShardPermutation(int64_t n, int64_t seed, int64_t epoch);

// Returns the contiguous part of a global batch of G samples that `rank` of `world` processes in micro-step
// `micro_step` of `accumulation`. Rank r has [r·G/world, (r+1)·G/world), which is divided among its micro-steps in the
// same way. All parts together are the batch, without overlaps.
std::vector<SampleRef> RankShare(const std::vector<SampleRef>& global_batch, int64_t rank, int64_t world,
                                 int64_t micro_step = 0, int64_t accumulation = 1);

// Returns `count` of the indices 0 to n - 1 in ascending order, one from each of `count` stretches of equal length
// (1 ≤ count ≤ n). Within its stretch the index is random, because data in which classes take turns would otherwise
// give one class only. The result depends on n and count alone.
std::vector<int64_t> SpreadEvenly(int64_t n, int64_t count);

// Evaluation: returns the batches of a rank. Each sample occurs once over all ranks, without padding, in file order,
// one contiguous range per rank. With a `limit` below the data set's size there are only so many samples over all
// ranks, which are spread evenly. The last batch may be shorter; a rank may have none if there are fewer samples than
// ranks. The epoch is 0.
std::vector<std::vector<SampleRef>> EvaluationBatches(int64_t dataset_size, int64_t batch_size, int64_t rank,
                                                      int64_t world, std::optional<int64_t> limit = {});

}  // namespace dtrain::data
