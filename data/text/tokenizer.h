// A tokenizer with what its ids are called in a dictionary: GPT-2's own, whose tokens fairseq numbers anew, or that of
// a RoBERTa model of Hugging Face's, whose ids are fairseq's already.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/text/byte_level_bpe.h"
#include "data/text/dictionary.h"

namespace dtrain::data {

struct TokenizerFiles {
  std::string vocabulary, merges;  // paths
  // Whether tokens keep the vocabulary's ids (vocab.json), rather than being decimal words that a dictionary gives ids
  // to (encoder.json).
  bool keeps_ids = false;
};

// In a folder: encoder.json and vocab.bpe, or else vocab.json and merges.txt. nullopt: neither.
std::optional<TokenizerFiles> FindTokenizer(const std::string& folder);

class Tokenizer {
 public:
  // Throws DataError, too, where ids are to be kept that are not as fairseq has them: <s> 0, <pad> 1, </s> 2, <unk> 3
  // and <mask> the last.
  explicit Tokenizer(const TokenizerFiles& files);

  const ByteLevelBpe& bpe() const { return bpe_; }
  bool keeps_ids() const { return keeps_ids_; }

  // What a dictionary calls token `id`.
  std::string Symbol(int64_t id) const;

  // By how often each id came (bpe().vocabulary() of them): fairseq's, or with ids that are kept the vocabulary in its
  // order.
  Dictionary CountedDictionary(const std::vector<int64_t>& counts) const;

  // The id in the dictionary of each token; kUnknownToken where it is not in there. Throws DataError where ids are to
  // be kept and the dictionary has others.
  std::vector<uint32_t> IdsIn(const Dictionary& dictionary) const;

  // For whole-word masking: of each id in the dictionary's vocabulary, whether it begins a word. Symbols that are no
  // tokens do.
  std::vector<bool> BeginsWord(const Dictionary& dictionary) const;

 private:
  void RequireKeepableIds() const;

  ByteLevelBpe bpe_;
  const bool keeps_ids_;
};

}  // namespace dtrain::data
