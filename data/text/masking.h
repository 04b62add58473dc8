// Dynamic masking for masked language models: which tokens the model must guess, drawn anew in each epoch. The law is
// that of fairseq's MaskTokensDataset: of n tokens ⌊p·n + u⌋, u uniform in [0, 1), are drawn without replacement; of
// them a tenth stays, a tenth becomes a random word, and the others become <mask>.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "data/random.h"

namespace dtrain::data {

struct MaskingOptions {
  double mask_prob = 0.15;      // p, in (0, 1)
  bool special_tokens = false;  // whether <s>, </s>, <pad> and <unk>, too, may be masked
  int64_t vocabulary = 0;       // random words are uniform over [4, vocabulary)
  int64_t mask_token = 0;       // <mask>
  int64_t seed = 0;
  // Whole words: for each id, whether it begins a word (a vocabulary long). Words are then drawn instead of tokens, and
  // all tokens of a word share its fate. Null: tokens. A special is a word, and so is what comes after one.
  std::shared_ptr<const std::vector<bool>> begins_word = nullptr;
};

// What a position without a loss has among the labels.
inline constexpr int64_t kNoLoss = -100;

class Masking {
 public:
  explicit Masking(MaskingOptions options) : options_(std::move(options)) {}

  // Masks `tokens`, all in [0, vocabulary), in place; `labels`, as many, become the original token at positions that
  // were drawn, and kNoLoss at all others. Depends on (seed, epoch, sample, repeat) and the tokens alone.
  void Mask(int64_t epoch, int64_t sample, int64_t repeat, std::span<int64_t> tokens, std::span<int64_t> labels) const;

 private:
  const MaskingOptions options_;
};

}  // namespace dtrain::data
