#include "data/pipeline/balanced_order.h"

#include <algorithm>
#include <map>
#include <utility>

#include "data/error.h"
#include "data/random.h"

namespace dtrain::data {
namespace {

// Returns the samples of a class in the order of its `pass`-th pass.
std::vector<int64_t> Shuffled(std::vector<int64_t> samples, int64_t seed, int64_t group, int64_t pass) {
  RandomGenerator random({.seed = seed, .epoch = pass, .sample = group, .stream = RandomStream::kBalance});
  for (auto last = static_cast<int64_t>(samples.size()) - 1; last > 0; --last) {
    std::swap(samples[static_cast<size_t>(last)], samples[static_cast<size_t>(random.Below(last + 1))]);
  }
  return samples;
}

}  // namespace

BalancedOrder::BalancedOrder(const std::vector<int64_t>& labels) : samples_(static_cast<int64_t>(labels.size())) {
  std::map<int64_t, std::vector<int64_t>> by_label;
  for (size_t index = 0; index < labels.size(); ++index) {
    if (labels[index] < 0) {
      throw DataError("--sampling=balanced: sample " + std::to_string(index) + " of the training split has no label",
                      "use --sampling=natural");
    }
    by_label[labels[index]].push_back(static_cast<int64_t>(index));
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
    const std::vector<int64_t> samples = Shuffled(groups_[group], seed, static_cast<int64_t>(group), pass);
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

}  // namespace dtrain::data
