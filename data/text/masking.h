// Dynamic masking for masked language models: selects the tokens that the model has to guess, anew in each epoch. The
// rule is that of fairseq's MaskTokensDataset: of n tokens ⌊p·n + u⌋ are drawn without replacement, u uniform in [0,
// 1). Of the drawn tokens a tenth stays, a tenth becomes a random word, and the others become <mask>. n includes
// special tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/random.h"
#include "data/text/tokenizer.h"

namespace dtrain::data {

struct MaskingOptions {
  double mask_prob = 0.15;      // p, in (0, 1)
  bool special_tokens = false;  // whether special tokens may be masked, too
  // The number of ids that tokens have, <mask> included, at least kSmallestVocabulary. Random words are uniform over
  // all of them but the special ones, except <mask>.
  int64_t vocabulary = 0;
  SpecialTokens special = {};  // of which <mask> is below vocabulary
  int64_t seed = 0;
  // For whole-word masking: for each id of the vocabulary, whether it begins a word. Then words are drawn instead of
  // tokens, and all tokens of a word are treated alike. Each special token is a word, and a token after one begins a
  // word. Null: tokens are drawn.
  std::shared_ptr<const std::vector<bool>> begins_word = nullptr;
};

// The label of a position without a loss.
inline constexpr int64_t kNoLoss = -100;

class Masking {
 public:
  // Throws std::invalid_argument if the vocabulary is too small, or begins_word or mask_token do not fit it.
  explicit Masking(MaskingOptions options);

  // Masks `tokens`, all in [0, vocabulary), in place. `labels` has the same size and receives the original token at
  // drawn positions and kNoLoss at all others. The result depends only on (seed, epoch, sample, repeat) and the tokens.
  void Mask(int64_t epoch, int64_t sample, int64_t repeat, std::span<int64_t> tokens, std::span<int64_t> labels) const;

 private:
  const MaskingOptions options_;
  const std::vector<int64_t> special_;  // ids that random words do not have, in order
};

}  // namespace dtrain::data
