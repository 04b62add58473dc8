// Which samples make up which batch: a pure function of its arguments. Batches are global and only then cut among
// ranks, so that the order does not depend on the number of ranks, and any step can be asked for directly (resume).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "data/pipeline/size_schedule.h"
#include "data/sample_decoder.h"

namespace dtrain::data {

enum class Shuffle {
  kGlobal,  // each epoch is its own permutation of all samples
  kShard,   // each epoch permutes chunks of neighbouring samples, and the samples of some chunks among each other
  kNone,    // file order
};
enum class LastBatch {
  kStream,  // the epochs' orders are one stream, cut into batches across epoch boundaries
  kDrop,    // each epoch is cut to ⌊dataset_size / global_batch⌋ batches
};

// The values of --shuffle and --last_batch. Throw std::invalid_argument on any other word.
Shuffle ShuffleFromName(std::string_view name);      // global | shard | none
LastBatch LastBatchFromName(std::string_view name);  // stream | drop

// The training order. Safe to call from many threads.
class TrainSampler {
 public:
  // Throws DataError where no batch can be made: an empty data set, or kDrop with fewer samples than a global batch.
  // With `repeats` R > 1 each sample of an epoch's order comes R times (repeated augmentation, arXiv:1901.09335), and
  // an epoch still has dataset_size samples: it ends after a part of its order. A global batch holds the first copies
  // of its samples, then the second ones, and so on: cut into R parts or more, among ranks and micro-steps, no part has
  // two of the same sample, as torchvision's RASampler has it among ranks; and neighbours, which mixup mixes, differ.
  // All samples of a batch have the size that `sizes` says for the epoch of the first.
  TrainSampler(int64_t dataset_size, int64_t global_batch, int64_t seed, Shuffle shuffle, LastBatch last_batch,
               int64_t repeats = 1, SizeSchedule sizes = {});

  // The samples of global step `step` (from 0), `global_batch` of them. Sequential calls cost O(global_batch); a jump
  // into another epoch computes its permutation, O(dataset_size).
  std::vector<SampleRef> GlobalBatch(int64_t step) const;

 private:
  using Order = std::shared_ptr<const std::vector<int64_t>>;  // null: file order
  Order EpochOrder(int64_t epoch) const;

  const int64_t dataset_size_, global_batch_, seed_, repeats_;
  const Shuffle shuffle_;
  const LastBatch last_batch_;
  const SizeSchedule sizes_;
  mutable std::mutex mutex_;
  mutable std::map<int64_t, Order> orders_;  // of the latest epochs asked for
};

// An order for storage that reads neighbours faster: chunks of 64 samples (some megabytes of photographs) in random
// order, and the samples of each 32 successive chunks shuffled.
std::vector<int64_t> ShardPermutation(int64_t n, int64_t seed, int64_t epoch);

// The contiguous part of a global batch that `rank` of `world` takes in micro-step `micro_step` of `accumulation`: rank
// r owns [r·G/world, (r+1)·G/world), its micro-steps cut that the same way. All parts together are the batch, each
// once.
std::vector<SampleRef> RankShare(const std::vector<SampleRef>& global_batch, int64_t rank, int64_t world,
                                 int64_t micro_step = 0, int64_t accumulation = 1);

// Evaluation: every sample exactly once over all ranks, unpadded, in file order, one contiguous range a rank. The last
// batch may be short; a rank may have none where there are fewer samples than ranks. Epoch is 0.
std::vector<std::vector<SampleRef>> EvaluationBatches(int64_t dataset_size, int64_t batch_size, int64_t rank,
                                                      int64_t world);

}  // namespace dtrain::data
