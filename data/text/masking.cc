#include "data/text/masking.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "data/text/dictionary.h"

namespace dtrain::data {
namespace {

constexpr double kKept = 0.1, kRandom = 0.1;  // shares of the drawn tokens

// Neighbouring tokens that are treated alike.
struct Unit {
  size_t begin = 0, end = 0;
};

std::vector<Unit> UnitsOf(std::span<const int64_t> tokens, const SpecialTokens& special,
                          const std::vector<bool>* begins_word) {
  std::vector<Unit> units;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool joins = begins_word != nullptr && i > 0 && !special.Contains(tokens[i]) &&
                       !special.Contains(tokens[i - 1]) && !(*begins_word)[static_cast<size_t>(tokens[i])];
    if (joins) {
      ++units.back().end;
    } else {
      units.push_back({i, i + 1});
    }
  }
  return units;
}

// Returns the special ids other than <mask> in their order.
std::vector<int64_t> InOrder(const SpecialTokens& special) {
  std::vector<int64_t> ids = {special.begin, special.pad, special.end, special.unknown};
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::erase_if(ids, [](int64_t id) { return id < 0; });
  return ids;
}

}  // namespace

Masking::Masking(MaskingOptions options) : options_(std::move(options)), special_(InOrder(options_.special)) {
  const bool fits = options_.vocabulary >= kSmallestVocabulary && options_.special.mask >= 0 &&
                    options_.special.mask < options_.vocabulary;
  const bool has_all_ids =
      !options_.begins_word || options_.begins_word->size() == static_cast<size_t>(options_.vocabulary);
  if (!fits || !has_all_ids) throw std::invalid_argument("masking needs one vocabulary for all of its tables");
}

void Masking::Mask(int64_t epoch, int64_t sample, int64_t repeat, std::span<int64_t> tokens,
                   std::span<int64_t> labels) const {
  std::fill(labels.begin(), labels.end(), kNoLoss);
  std::vector<Unit> units = UnitsOf(tokens, options_.special, options_.begins_word.get());
  const auto count = static_cast<double>(units.size());
  if (!options_.special_tokens) {
    std::erase_if(units, [&](const Unit& unit) { return options_.special.Contains(tokens[unit.begin]); });
  }
  RandomGenerator random(
      {.seed = options_.seed, .epoch = epoch, .sample = sample, .repeat = repeat, .stream = RandomStream::kMask});
  const auto wanted = static_cast<size_t>(options_.mask_prob * count + random.Uniform(0, 1));
  for (size_t i = 0; i < std::min(wanted, units.size()); ++i) {
    std::swap(units[i], units[i + static_cast<size_t>(random.Below(static_cast<int64_t>(units.size() - i)))]);
    const double fate = random.Uniform(0, 1);
    for (size_t at = units[i].begin; at < units[i].end; ++at) {
      labels[at] = tokens[at];
      if (fate < kRandom) {
        tokens[at] = random.Below(options_.vocabulary - static_cast<int64_t>(special_.size()));
        for (const int64_t special : special_) tokens[at] += tokens[at] >= special ? 1 : 0;
      } else if (fate >= kRandom + kKept) {
        tokens[at] = options_.special.mask;
      }
    }
  }
}

}  // namespace dtrain::data
