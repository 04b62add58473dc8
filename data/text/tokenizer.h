// A tokenizer and the names of its tokens in a dictionary: either GPT-2's, whose tokens fairseq renumbers, or that of a
// model from Hugging Face, whose ids already are fairseq's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/text/byte_level_bpe.h"
#include "data/text/dictionary.h"
#include "data/text/tokenizer_json.h"

namespace dtrain::data {

struct TokenizerFiles {
  std::string vocabulary, merges = {};  // paths; without merges, the vocabulary is a tokenizer.json, which holds both
  // True if tokens keep the ids of the vocabulary (vocab.json); false if the decimal ids are symbols to which a
  // dictionary gives new ids (encoder.json).
  bool keeps_ids = false;

  std::vector<std::string> paths() const;  // one or two
};

// Returns the contents of the files, or the parts of tokenizer.json. Throws DataError.
TokenizerParts PartsOf(const TokenizerFiles& files);

// Returns the files of Hugging Face's tokenizer in a folder: tokenizer.json, which transformers prefers, too, else
// vocab.json and merges.txt. Empty if there are none.
std::optional<TokenizerFiles> FindHuggingFaceTokenizer(const std::string& folder);

// Returns the tokenizer files in a folder: encoder.json and vocab.bpe, else Hugging Face's. Empty if there are none.
std::optional<TokenizerFiles> FindTokenizer(const std::string& folder);

class Tokenizer {
 public:
  // Throws what ByteLevelBpe::Load and ParseTokenizerJson throw. If keeps_ids is set, throws what RequireKnownSettings
  // throws, and DataError if the special tokens do not have fairseq's ids (<s> 0, <pad> 1, </s> 2, <unk> 3) or there is
  // no <mask>. The ids of <mask> differ: it is the last token of published models, and often the fifth of tokenizers
  // that users train.
  explicit Tokenizer(const TokenizerFiles& files);

  const ByteLevelBpe& bpe() const { return bpe_; }
  bool keeps_ids() const { return keeps_ids_; }
  bool marks_sentences() const { return marks_sentences_; }  // as TokenizerParts

  // Returns the symbol of token `id` in a dictionary.
  std::string Symbol(int64_t id) const;

  // Makes the dictionary of a text, given the count of each id (bpe().vocabulary() numbers): in fairseq's order, or in
  // the order of the vocabulary if ids are kept.
  Dictionary CountedDictionary(const std::vector<int64_t>& counts) const;

  // Returns each token's id in the dictionary; kUnknownToken for a token that is not in it. Throws DataError if ids are
  // kept and the dictionary has other ids.
  std::vector<uint32_t> IdsIn(const Dictionary& dictionary) const;

  // For whole-word masking: returns for each id in the dictionary's vocabulary whether it begins a word. Symbols that
  // are not tokens do.
  std::vector<bool> BeginsWord(const Dictionary& dictionary) const;

 private:
  void RequireKeepableIds() const;
  // If ids are kept: whether token `id` has its id without a line in dict.txt. So has <mask> if it is the last token,
  // because readers of a dictionary without it append it.
  bool DictionaryLeavesOut(int64_t id) const;

  bool marks_sentences_ = true;
  ByteLevelBpe bpe_;
  const bool keeps_ids_;
};

}  // namespace dtrain::data
