// Visits the groups of records (each record alone, if there are none) class by class, in random order within a class,
// and takes one whenever the number of records taken lags behind `fraction` of those visited; of folds, the smallest
// one takes it. So the share of every class, and of the whole, is exact to about one group.
#include "data/pipeline/hold_out.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "data/random.h"
#include "data/sha256.h"

namespace dtrain::data {
namespace {

constexpr int64_t kNoEpoch = (int64_t{1} << 24) - 1;  // the order is that of an epoch that no training reaches

std::string FingerprintOf(const RecordSource& whole, const std::vector<int64_t>& positions) {
  std::string text = whole.fingerprint();
  for (const int64_t position : positions) text += " " + std::to_string(position);
  return Sha256Of(text);
}

// Returns the positions of each group, in the random order of their first ones.
std::vector<std::vector<int64_t>> GroupsOf(const RecordSource& whole, const HoldOutOptions& options) {
  std::vector<std::vector<int64_t>> groups;
  std::map<std::string_view, size_t> number_of;
  for (const int64_t position : Permutation(whole.size(), options.seed, kNoEpoch)) {
    size_t number = groups.size();
    std::string_view name;
    if (!options.groups.empty()) name = options.groups[static_cast<size_t>(position)];
    if (!name.empty()) number = number_of.try_emplace(name, number).first->second;
    if (number == groups.size()) groups.emplace_back();
    groups[number].push_back(position);
  }
  return groups;
}

}  // namespace

HeldOut HoldOut(const RecordSource& whole, const HoldOutOptions& options) {
  HeldOut parts;
  std::vector<std::vector<int64_t>> groups = GroupsOf(whole, options);
  std::ranges::stable_sort(groups, {}, [&whole](const auto& group) { return whole.Label(group.front()); });
  // Of each fold the samples of this class, and of all.
  std::vector<std::pair<int64_t, int64_t>> sizes(static_cast<size_t>(options.folds));
  size_t visited = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::vector<int64_t>& group = groups[i];
    const auto size = static_cast<int64_t>(group.size());
    const bool first_of_class = i == 0 || whole.Label(groups[i - 1].front()) != whole.Label(group.front());
    bool held_out = false;
    if (options.folds > 0) {
      for (auto& [of_class, of_all] : sizes) of_class = first_of_class ? 0 : of_class;
      const auto smallest = std::ranges::min_element(sizes);
      smallest->first += size;
      smallest->second += size;
      held_out = smallest - sizes.begin() == options.fold - 1;
    } else {
      visited += group.size();
      const auto due = std::lround(options.fraction * static_cast<double>(visited));
      // A group larger than twice what is due would make most of the part.
      held_out = !first_of_class && static_cast<int64_t>(parts.val.size()) + (size + 1) / 2 <= due;
    }
    std::vector<int64_t>& part = held_out ? parts.val : parts.train;
    part.insert(part.end(), group.begin(), group.end());
  }
  std::ranges::sort(parts.train);
  std::ranges::sort(parts.val);
  return parts;
}

Subset::Subset(std::shared_ptr<const RecordSource> whole, std::vector<int64_t> positions)
    : SourceView(std::move(whole)),
      positions_(std::move(positions)),
      fingerprint_(FingerprintOf(*whole_, positions_)) {}

}  // namespace dtrain::data
