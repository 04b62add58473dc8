// A file of text that is tokenized when it is opened, on all cores, so that a masked language model can learn from text
// without token files. All tokens are in memory: for much text, dtrain_data tokenize writes files that many runs and
// ranks share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/formats/token_dataset.h"
#include "data/text/tokenizer.h"

namespace dtrain::data {

struct RawTextOptions {
  std::vector<uint32_t> ids = {};  // of the model, by the tokenizer's; empty: they are the same
  bool skips_blank = false;        // leaves out lines of white space
};

class RawText : public TokenStream {
 public:
  // Lines are kept as they are, white space included, and end with the tokenizer's </s>. Throws DataError if the file
  // cannot be read, is not UTF-8, or has no line.
  RawText(const std::string& path, const Tokenizer& tokenizer, const RawTextOptions& options);

  TokenType type() const override { return TokenType::kUInt32; }
  int64_t tokens() const override { return static_cast<int64_t>(tokens_.size()); }
  void ForEachSize(const std::function<void(int64_t line, int64_t size)>& visit) const override;
  int64_t SizeOf(int64_t line) const override { return sizes_[static_cast<size_t>(line)]; }
  std::vector<uint8_t> ReadTokens(int64_t begin, int64_t count) const override;
  RecordPlace PlaceOfToken(int64_t /*token*/) const override { return {.file = path_}; }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  const std::string path_;
  std::vector<uint32_t> tokens_;
  std::vector<int32_t> sizes_;  // tokens of each line
  std::string fingerprint_;
};

}  // namespace dtrain::data
