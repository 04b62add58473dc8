#include "data/text/token_batches.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "data/random.h"

namespace dtrain::data {
namespace {

constexpr int64_t kRowMultiple = 8;  // row lengths at which a GPU's matrix units are fastest

TokenBatchOptions Checked(const TokenBatchOptions& options) {
  const bool bounded = options.batch_size > 0 || options.max_tokens > 0;
  if (!bounded || options.tokens_per_sample < 1 || options.micro_batches < 1) {
    throw std::invalid_argument("batches of tokens need a size or a budget");
  }
  if (options.balanced && options.max_tokens > 0) throw std::invalid_argument("a budget permutes batches, not blocks");
  return options;
}

int64_t BlockAt(const std::vector<int64_t>& order, int64_t place) {
  return order.empty() ? place : order[static_cast<size_t>(place)];
}

}  // namespace

TokenBatches::TokenBatches(int64_t blocks, std::function<int64_t(int64_t)> length, const TokenBatchOptions& options)
    : options_(Checked(options)),
      blocks_(blocks),
      length_(std::move(length)),
      order_(OrderToCut()),
      batches_(HasBudget() ? CutShards() : std::vector<Range>()),
      sampler_(units(), units_per_step(), options.seed, options.shuffle, options.last_batch, /*repeats=*/1, {},
               options.balanced, ShardUnits()) {}

std::vector<TokenBatches::Range> TokenBatches::Shards() const {
  if (options_.shards.empty()) return {{0, blocks_}};
  std::vector<Range> ranges;
  for (const int64_t blocks : options_.shards) {
    const int64_t begin = ranges.empty() ? 0 : ranges.back().end;
    ranges.push_back({begin, begin + blocks});
  }
  return ranges;
}

std::vector<TokenBatches::Range> TokenBatches::CutShards() const {
  std::vector<Range> batches;
  for (const Range shard : Shards()) {
    const std::vector<Range> of_shard = Cut(shard, order_);
    batches.insert(batches.end(), of_shard.begin(), of_shard.end());
  }
  return batches;
}

// Returns the number of units of each shard; nothing if all blocks are one.
std::vector<int64_t> TokenBatches::ShardUnits() const {
  if (options_.shards.empty() || !HasBudget()) return options_.shards;
  std::vector<int64_t> units;
  size_t batch = 0;
  for (const Range shard : Shards()) {
    const size_t first = batch;
    while (batch < batches_.size() && batches_[batch].end <= shard.end) ++batch;
    units.push_back(static_cast<int64_t>(batch - first));
  }
  return units;
}

// Returns the blocks, each shard sorted by length, blocks of equal length in random order. Empty if batches are in file
// order.
std::vector<int64_t> TokenBatches::OrderToCut() const {
  if (!HasBudget() || options_.shuffle == Shuffle::kNone) return {};
  constexpr int64_t kNoEpoch = -1;  // key of an order that belongs to no epoch
  const std::vector<Range> shards = Shards();
  // Of each shard and length, the next place in the order: a counting sort, since there may be 10^8 blocks.
  std::vector<std::vector<int64_t>> places;
  const auto length_of = [this](int64_t block) {
    return static_cast<size_t>(std::clamp<int64_t>(length_(block), 0, options_.tokens_per_sample));
  };
  for (const Range shard : shards) {
    std::vector<int64_t>& of_shard = places.emplace_back(static_cast<size_t>(options_.tokens_per_sample) + 2);
    for (int64_t block = shard.begin; block < shard.end; ++block) ++of_shard[length_of(block) + 1];
    int64_t place = shard.begin;
    for (int64_t& next : of_shard) next = place += next;
  }
  std::vector<int64_t> order(static_cast<size_t>(blocks_));
  for (const int64_t block : Permutation(blocks_, options_.seed, kNoEpoch)) {
    const auto shard = std::ranges::upper_bound(shards, block, {}, &Range::end) - shards.begin();
    order[static_cast<size_t>(places[static_cast<size_t>(shard)][length_of(block)]++)] = block;
  }
  return order;
}

std::vector<TokenBatches::Range> TokenBatches::Cut(Range range, const std::vector<int64_t>& order) const {
  std::vector<Range> batches;
  int64_t longest = 0;
  for (int64_t place = range.begin; place < range.end; ++place) {
    const int64_t length = length_(BlockAt(order, place));
    longest = std::max(longest, length);
    const int64_t blocks = batches.empty() ? 0 : batches.back().end - batches.back().begin + 1;
    const bool too_many = (options_.batch_size > 0 && blocks > options_.batch_size) ||
                          (HasBudget() && blocks * RowLength(longest) > options_.max_tokens);
    if (batches.empty() || too_many) {
      batches.push_back({place, place + 1});
      longest = length;
    } else {
      batches.back().end = place + 1;
    }
  }
  return batches;
}

int64_t TokenBatches::RowLength(int64_t longest) const {
  const int64_t rounded = (longest + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
  return std::min(rounded, options_.tokens_per_sample);
}

void TokenBatches::SetRowLength(std::vector<SampleRef>& samples) const {
  int64_t longest = 0;
  for (const SampleRef& sample : samples) longest = std::max(longest, length_(sample.index));
  for (SampleRef& sample : samples) sample.size = RowLength(longest);
}

void TokenBatches::Append(Range range, const std::vector<int64_t>& order, int64_t epoch,
                          std::vector<SampleRef>& samples) const {
  for (int64_t place = range.begin; place < range.end; ++place) {
    samples.push_back({.index = BlockAt(order, place), .epoch = epoch});
  }
}

std::vector<SampleRef> TokenBatches::Share(int64_t step, int64_t rank, int64_t world, int64_t micro_step,
                                           int64_t accumulation) const {
  std::vector<SampleRef> samples = RankShare(sampler_.GlobalBatch(step), rank, world, micro_step, accumulation);
  if (HasBudget()) {
    const std::vector<SampleRef> batches = std::exchange(samples, {});
    for (const SampleRef& batch : batches) {
      Append(batches_[static_cast<size_t>(batch.index)], order_, batch.epoch, samples);
    }
  }
  SetRowLength(samples);
  return samples;
}

// With a budget, batches hold unequal numbers of blocks. With LastBatch::kStream, every completed epoch has all blocks,
// so only the steps after it are counted one by one.
int64_t TokenBatches::BlocksTaken(int64_t steps) const {
  if (!HasBudget()) return steps * units_per_step();
  const bool streams = options_.last_batch == LastBatch::kStream;
  const int64_t epochs = streams ? steps * units_per_step() / units() : 0;  // with shards, rounds over all of them
  const auto shards = std::max<int64_t>(1, static_cast<int64_t>(options_.shards.size()));
  int64_t blocks = epochs * blocks_;
  for (int64_t step = epochs * units() / units_per_step(); step < steps; ++step) {
    for (const SampleRef& batch : sampler_.GlobalBatch(step)) {
      const Range range = batches_[static_cast<size_t>(batch.index)];
      if (!streams || batch.epoch / shards == epochs) blocks += range.end - range.begin;
    }
  }
  return blocks;
}

std::vector<std::vector<SampleRef>> TokenBatches::EvaluationBatches(int64_t rank, int64_t world,
                                                                    std::optional<int64_t> limit) const {
  static const std::vector<int64_t> kFileOrder;
  std::vector<int64_t> order = kFileOrder;  // of blocks
  std::vector<Range> ranges;                // of `order`, this rank's
  const auto first = [=](int64_t of_rank, int64_t total) { return of_rank * total / world; };
  if (limit && HasBudget()) {
    // The batches must not depend on the number of ranks, so the whole split is cut before any is chosen.
    const std::vector<Range> all = Cut({0, blocks_}, kFileOrder);
    const auto total = static_cast<int64_t>(all.size());
    const std::vector<int64_t> chosen = SpreadEvenly(total, std::min(*limit, total));
    const auto taken = static_cast<int64_t>(chosen.size());
    for (int64_t i = first(rank, taken); i < first(rank + 1, taken); ++i) {
      ranges.push_back(all[static_cast<size_t>(chosen[static_cast<size_t>(i)])]);
    }
  } else {
    const int64_t blocks = limit ? std::min(*limit, blocks_) : blocks_;
    if (blocks < blocks_) order = SpreadEvenly(blocks_, blocks);
    ranges = Cut({first(rank, blocks), first(rank + 1, blocks)}, order);
  }
  std::vector<std::vector<SampleRef>> batches;
  for (const Range range : ranges) {
    Append(range, order, 0, batches.emplace_back());
    SetRowLength(batches.back());
  }
  return batches;
}

}  // namespace dtrain::data
