// Visits the records class by class, in random order within a class, and takes one whenever the number of records taken
// lags behind `fraction` of those visited. So the share of every class, and of the whole, is exact to about one record.
#include "data/pipeline/hold_out.h"

#include <algorithm>
#include <cmath>
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

}  // namespace

HeldOut HoldOut(const RecordSource& whole, double fraction, int64_t seed) {
  std::vector<int64_t> order = Permutation(whole.size(), seed, kNoEpoch);
  std::stable_sort(order.begin(), order.end(),
                   [&whole](int64_t a, int64_t b) { return whole.Label(a) < whole.Label(b); });
  HeldOut parts;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto due = std::lround(fraction * static_cast<double>(i + 1));
    const bool first_of_class = i == 0 || whole.Label(order[i - 1]) != whole.Label(order[i]);
    const bool held_out = !first_of_class && static_cast<int64_t>(parts.val.size()) < due;
    (held_out ? parts.val : parts.train).push_back(order[i]);
  }
  std::sort(parts.train.begin(), parts.train.end());
  std::sort(parts.val.begin(), parts.val.end());
  return parts;
}

Subset::Subset(std::shared_ptr<const RecordSource> whole, std::vector<int64_t> positions)
    : whole_(std::move(whole)), positions_(std::move(positions)), fingerprint_(FingerprintOf(*whole_, positions_)) {}

}  // namespace dtrain::data
