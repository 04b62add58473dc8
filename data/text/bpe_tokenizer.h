// Byte-level BPE as a Tokenizer: GPT-2's, whose tokens fairseq renumbers, RoBERTa's, whose ids are fairseq's already,
// and those of newer models such as ModernBERT, with special tokens of their own, added tokens and NFC.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/text/added_tokens.h"
#include "data/text/byte_level_bpe.h"
#include "data/text/tokenizer.h"

namespace dtrain::data {

// How a text is prepared for the merges.
struct BpePreparation {
  bool adds_space = false;  // whether a text gets a space in front, unless it has one (add_prefix_space)
  bool composes = false;    // whether characters are composed (Unicode's NFC)
  bool trims_spans = true;  // whether spans of characters leave out a space in front
  std::vector<AddedToken> added = {}, composed_added = {};  // looked for in the text as it is, and in the composed one
};

class BpeTokenizer : public Tokenizer {
 public:
  // GPT-2's: a dictionary gives the tokens their ids.
  explicit BpeTokenizer(ByteLevelBpe bpe);
  // RoBERTa's. Throws DataError if the special tokens do not have fairseq's ids (<s> 0, <pad> 1, </s> 2, <unk> 3) or
  // there is no <mask>. The ids of <mask> differ: it is the last token of published models, and often the fifth of
  // tokenizers that users train. `other_rows` as in Tokenizer.
  BpeTokenizer(ByteLevelBpe bpe, bool adds_space, const std::string& other_rows);
  BpeTokenizer(ByteLevelBpe bpe, const RowFormat& format, BpePreparation preparation, std::string other_rows);

  std::unique_ptr<TextEncoder> MakeEncoder() const override;
  const std::vector<std::string>& tokens() const override { return bpe_.tokens(); }
  int64_t IdOf(std::string_view token) const override { return bpe_.IdOf(token); }
  bool BeginsWord(int64_t id) const override;
  bool follows_settings() const override { return !has_dictionary() || preparation_.adds_space; }

 private:
  class Encoder;

  const ByteLevelBpe bpe_;
  const BpePreparation preparation_ = {};
  AddedTokens added_, composed_added_;
};

// The openers of the table of kinds: encoder.json and vocab.bpe, vocab.json and merges.txt.
std::unique_ptr<const Tokenizer> OpenGpt2(const std::vector<std::string>& paths);
std::unique_ptr<const Tokenizer> OpenRobertaBpe(const std::vector<std::string>& paths);

}  // namespace dtrain::data
