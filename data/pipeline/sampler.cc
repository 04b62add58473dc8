#include "data/pipeline/sampler.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "data/error.h"
#include "data/random.h"
#include "data/whole_number.h"

namespace dtrain::data {

std::optional<SizeSchedule> ParseSizeSchedule(const std::string& text) {
  constexpr int64_t kLargestSize = 8192;  // pixels
  SizeSchedule schedule;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view change = rest.substr(0, comma);
    const size_t colon = change.find(':');
    if (colon == std::string_view::npos || comma == rest.size() - 1) return std::nullopt;
    const auto epoch = WholeNumber(change.substr(0, colon)), size = WholeNumber(change.substr(colon + 1));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (!epoch || !size || *size < 1 || *size > kLargestSize) return std::nullopt;
    if (schedule.empty() ? *epoch != 0 : *epoch <= schedule.back().epoch) return std::nullopt;
    schedule.push_back({*epoch, *size});
  }
  return schedule;
}

int64_t SizeAt(const SizeSchedule& schedule, int64_t epoch) {
  int64_t size = 0;
  for (const SizeChange& change : schedule) {
    if (change.epoch <= epoch) size = change.size;
  }
  return size;
}

BalancedOrder::BalancedOrder(const std::vector<int64_t>& labels) : samples_(static_cast<int64_t>(labels.size())) {
  std::map<int64_t, std::vector<int64_t>> by_label;
  for (size_t index = 0; index < labels.size(); ++index) {
    if (labels[index] >= 0) by_label[labels[index]].push_back(static_cast<int64_t>(index));  // else it is damaged
  }
  if (by_label.empty()) {
    throw DataError("--sampling=balanced: the training split has no labels", "use --sampling=natural");
  }
  for (auto& [label, samples] : by_label) groups_.push_back(std::move(samples));
}

std::vector<BalancedOrder::Place> BalancedOrder::Epoch(int64_t seed, int64_t epoch) const {
  const auto classes = static_cast<int64_t>(groups_.size());
  std::vector<Place> places;
  places.reserve(static_cast<size_t>(samples_));
  for (int64_t group = 0; group < classes; ++group) {
    // The places of all epochs are dealt out to the classes in turn.
    const auto dealt = [&](int64_t epochs) { return (epochs * samples_ + classes - 1 - group) / classes; };
    AppendClass(static_cast<size_t>(group), dealt(epoch), dealt(epoch + 1), seed, places);
  }
  std::vector<Place> shuffled;
  shuffled.reserve(places.size());
  for (const int64_t place : Permutation(samples_, seed, epoch)) {
    shuffled.push_back(places[static_cast<size_t>(place)]);
  }
  return shuffled;
}

// The places of a class, from its `first` to its `end` one, are passes over its samples.
void BalancedOrder::AppendClass(size_t group, int64_t first, int64_t end, int64_t seed,
                                std::vector<Place>& places) const {
  const auto size = static_cast<int64_t>(groups_[group].size());
  for (int64_t pass = first / size; pass * size < end; ++pass) {
    std::vector<int64_t> samples = groups_[group];
    RandomGenerator(
        {.seed = seed, .epoch = pass, .sample = static_cast<int64_t>(group), .stream = RandomStream::kBalance})
        .Shuffle(samples);
    for (int64_t i = std::max(first, pass * size); i < std::min(end, (pass + 1) * size); ++i) {
      places.push_back({samples[static_cast<size_t>(i - pass * size)], 0});
    }
  }
  // A pass has each sample once, but two parts of passes may share one, so repeats are counted.
  std::map<int64_t, int64_t> seen;
  for (size_t i = places.size() - static_cast<size_t>(end - first); i < places.size(); ++i) {
    places[i].repeat = seen[places[i].index]++;
  }
}

namespace {

struct ShuffleFacts {
  std::string_view name;
  // Returns the order of `n` samples in an epoch; null: that of the files.
  std::vector<int64_t> (*order)(int64_t n, int64_t seed, int64_t epoch);
};
constexpr ShuffleFacts kShuffles[] = {
    {"global", Permutation}, {"shard", ShardPermutation}, {"none", nullptr}};  // as Shuffle
constexpr std::string_view kLastBatches[] = {"stream", "drop"};                // as LastBatch

const ShuffleFacts& FactsOf(Shuffle shuffle) { return kShuffles[static_cast<size_t>(shuffle)]; }

}  // namespace

Shuffle ShuffleFromName(std::string_view name) {
  const auto* const found = std::ranges::find(kShuffles, name, &ShuffleFacts::name);
  if (found == std::end(kShuffles)) throw std::invalid_argument("no order of samples is '" + std::string(name) + "'");
  return static_cast<Shuffle>(found - kShuffles);
}

LastBatch LastBatchFromName(std::string_view name) {
  const auto* const found = std::ranges::find(kLastBatches, name);
  if (found == std::end(kLastBatches)) throw std::invalid_argument("no last batch is '" + std::string(name) + "'");
  return static_cast<LastBatch>(found - kLastBatches);
}

TrainSampler::TrainSampler(int64_t dataset_size, int64_t global_batch, int64_t seed, Shuffle shuffle,
                           LastBatch last_batch, int64_t repeats, SizeSchedule sizes,
                           std::optional<BalancedOrder> balanced, std::vector<int64_t> shards)
    : dataset_size_(dataset_size),
      global_batch_(global_batch),
      seed_(seed),
      repeats_(repeats),
      shuffle_(shuffle),
      last_batch_(last_batch),
      sizes_(std::move(sizes)),
      balanced_(std::move(balanced)),
      shards_(std::move(shards)) {
  if (dataset_size < 1) throw DataError("the training split has no samples");
  if (global_batch < 1) throw std::invalid_argument("a global batch has at least one sample");
  if (last_batch == LastBatch::kDrop && dataset_size < global_batch) {
    throw DataError("the training split has " + std::to_string(dataset_size) +
                        " samples, fewer than a global batch of " + std::to_string(global_batch),
                    "use a smaller global batch, or --last_batch=stream, which lets batches span epochs");
  }
}

std::vector<SampleRef> TrainSampler::GlobalBatch(int64_t step) const {
  int64_t position = step * global_batch_;
  const int64_t size = SizeAt(sizes_, EpochAt(position).epoch);
  std::vector<SampleRef> batch;
  batch.reserve(static_cast<size_t>(global_batch_));
  while (static_cast<int64_t>(batch.size()) < global_batch_) {
    const EpochOfStream now = EpochAt(position);
    const int64_t begin = position - now.begin;
    const int64_t end = std::min(now.length, begin + global_batch_ - static_cast<int64_t>(batch.size()));
    const Order order = EpochOrder(now);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t place = i / repeats_;
      const int64_t element = order ? (*order)[static_cast<size_t>(place)] : place;
      batch.push_back({.index = now.first_sample + element % dataset_size_,
                       .epoch = now.epoch,
                       .repeat = element / dataset_size_ * repeats_ + i % repeats_,
                       .size = size});
    }
    position += end - begin;
  }
  if (repeats_ > 1) {
    std::ranges::stable_sort(batch, {}, [this](const SampleRef& sample) { return sample.repeat % repeats_; });
  }
  return batch;
}

TrainSampler::EpochOfStream TrainSampler::EpochAt(int64_t position) const {
  // Each epoch contributes only its whole batches to the stream if kDrop is set.
  const int64_t length =
      last_batch_ == LastBatch::kDrop ? dataset_size_ / global_batch_ * global_batch_ : dataset_size_;
  const int64_t rounds = position / length;
  if (shards_.empty()) return {rounds, rounds * length, length, 0};
  const auto count = static_cast<int64_t>(shards_.size());
  int64_t first = 0;
  for (int64_t shard = 0;; ++shard) {
    const int64_t size = shards_[static_cast<size_t>(shard)];
    if (position % length < first + size) return {rounds * count + shard, rounds * length + first, size, first};
    first += size;
  }
}

TrainSampler::Order TrainSampler::EpochOrder(const EpochOfStream& of) const {
  const int64_t epoch = of.epoch;
  if (FactsOf(shuffle_).order == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  Order& order = orders_[epoch];
  if (!order) {
    order = std::make_shared<const std::vector<int64_t>>(MakeOrder(of));
  }
  Order result = order;
  // Sequential steps need at most two neighbouring epochs; the one farther from this epoch is dropped.
  while (orders_.size() > 2) {
    const auto first = orders_.begin(), last = std::prev(orders_.end());
    orders_.erase(epoch - first->first >= last->first - epoch ? first : last);
  }
  return result;
}

std::vector<int64_t> TrainSampler::MakeOrder(const EpochOfStream& of) const {
  if (!balanced_) {
    const int64_t samples = shards_.empty() ? dataset_size_ : of.length;
    return FactsOf(shuffle_).order(samples, seed_, of.epoch);
  }
  std::vector<int64_t> order;
  for (const BalancedOrder::Place& place : balanced_->Epoch(seed_, of.epoch)) {
    order.push_back(place.index + place.repeat * dataset_size_);
  }
  return order;
}

std::vector<int64_t> ShardPermutation(int64_t n, int64_t seed, int64_t epoch) {
  constexpr int64_t kChunk = 64, kWindow = 32 * kChunk;
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<int64_t> order;
  order.reserve(static_cast<size_t>(n));
  for (const int64_t chunk : Permutation(chunks, seed, epoch)) {
    for (int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) order.push_back(i);
  }
  RandomGenerator random({.seed = seed, .epoch = epoch, .sample = 1, .stream = RandomStream::kPermutation});
  for (int64_t begin = 0; begin < n; begin += kWindow) {
    random.Shuffle(
        std::span(order).subspan(static_cast<size_t>(begin), static_cast<size_t>(std::min(n - begin, kWindow))));
  }
  return order;
}

std::vector<SampleRef> RankShare(const std::vector<SampleRef>& global_batch, int64_t rank, int64_t world,
                                 int64_t micro_step, int64_t accumulation) {
  const auto total = static_cast<int64_t>(global_batch.size());
  const int64_t rank_begin = rank * total / world, rank_end = (rank + 1) * total / world;
  const int64_t share = rank_end - rank_begin;
  const int64_t begin = rank_begin + micro_step * share / accumulation;
  const int64_t end = rank_begin + (micro_step + 1) * share / accumulation;
  return {global_batch.begin() + begin, global_batch.begin() + end};
}

std::vector<int64_t> SpreadEvenly(int64_t n, int64_t count) {
  RandomGenerator random({.stream = RandomStream::kSubset});
  std::vector<int64_t> indices;
  indices.reserve(static_cast<size_t>(count));
  // The boundaries i·n/count, without a product that might overflow.
  const int64_t length = n / count, longer = n % count;
  int64_t begin = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t end = length * (i + 1) + (i + 1) * longer / count;
    indices.push_back(begin + random.Below(end - begin));
    begin = end;
  }
  return indices;
}

std::vector<std::vector<SampleRef>> EvaluationBatches(int64_t dataset_size, int64_t batch_size, int64_t rank,
                                                      int64_t world, std::optional<int64_t> limit) {
  const bool limited = limit && *limit < dataset_size;
  const std::vector<int64_t> chosen = limited ? SpreadEvenly(dataset_size, *limit) : std::vector<int64_t>();
  const int64_t samples = limited ? *limit : dataset_size;
  const int64_t begin = rank * samples / world, end = (rank + 1) * samples / world;
  std::vector<std::vector<SampleRef>> batches;
  for (int64_t first = begin; first < end; first += batch_size) {
    auto& batch = batches.emplace_back();
    for (int64_t i = first; i < std::min(end, first + batch_size); ++i) {
      batch.push_back({.index = limited ? chosen[static_cast<size_t>(i)] : i, .epoch = 0});
    }
  }
  return batches;
}

}  // namespace dtrain::data
