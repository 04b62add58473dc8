// BERT's tokenizer (Devlin et al. 2018). A text is cleaned, cut into words at white space, around punctuation and
// around Chinese characters, and each word is cut into the longest pieces that the vocabulary has, from left to right.
// The ids are those of Hugging Face's `tokenizers`, except for characters that are newer than the tables of Unicode
// that either has.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text/added_tokens.h"
#include "data/text/tokenizer.h"

namespace dtrain::data {

struct WordPieceOptions {
  std::vector<std::string> tokens;  // by id; pieces that continue a word begin with ##
  std::string unknown = "[UNK]";    // a token; a word that cannot be cut becomes this
  size_t most_characters = 100;     // longer words do, too
  // Whether control characters are removed, Chinese characters are words of their own, accents are removed, and letters
  // become lower-case ones.
  bool cleans = true, parts_chinese = true, strips_accents = true, lowers = true;
  std::vector<AddedToken> added = {};             // looked for in the text as it is
  std::vector<AddedToken> normalised_added = {};  // and after it has been cleaned as above
  RowFormat format = {};
  std::string other_rows = {};  // as in Tokenizer
};

class WordPieceTokenizer : public Tokenizer {
 public:
  // Throws DataError if `unknown` is not a token.
  explicit WordPieceTokenizer(WordPieceOptions options);

  std::unique_ptr<TextEncoder> MakeEncoder() const override;
  const std::vector<std::string>& tokens() const override { return options_.tokens; }
  int64_t IdOf(std::string_view token) const override;
  bool BeginsWord(int64_t id) const override;

 private:
  class Encoder;

  const WordPieceOptions options_;
  // Ids by piece, without ##. The keys point into the tokens.
  std::unordered_map<std::string_view, int32_t> beginnings_, continuations_;
  size_t longest_ = 0;  // bytes
  int32_t unknown_ = 0;
  AddedTokens added_, normalised_added_;
};

}  // namespace dtrain::data
