// Blocks of neighbouring tokens, cut from a token file as fairseq's TokenBlockDataset cuts them: what a model sees at
// once. A view over the file: a block's record is its tokens as they are stored, without the <s> in front, which the
// decoder adds (token_row_decoder.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/token_dataset.h"
#include "data/record_source.h"

namespace dtrain::data {

enum class SampleBreak {
  kNone,         // pieces of the stream, wherever lines end
  kComplete,     // whole lines, as many as fit; a line that alone does not fit is a block of its own
  kCompleteDoc,  // the same, and a line that is </s> alone ends a document, hence the block, and is in none; a block of
                 // one token is left out
  kEos,          // a line each
};

// none | complete | complete_doc | eos. Throws std::invalid_argument on any other word.
SampleBreak SampleBreakFromName(std::string_view name);

class TokenBlocks : public RecordSource {
 public:
  // A block has at most tokens_per_sample tokens with the <s> in front (≥ 2); longer ones are left out and counted.
  // Throws DataError where no block is left.
  TokenBlocks(std::unique_ptr<const TokenDataset> tokens, SampleBreak sample_break, int64_t tokens_per_sample);

  int64_t size() const override { return static_cast<int64_t>(begins_.size()); }
  RecordKind kind() const override { return RecordKind::kTokens; }
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override;
  std::string fingerprint() const override { return fingerprint_; }

  TokenType type() const { return tokens_->type(); }
  // Tokens of a block with the <s> in front.
  int64_t length(int64_t index) const { return 1 + int64_t{lengths_[static_cast<size_t>(index)]}; }
  int64_t too_long() const { return too_long_; }  // blocks that were left out

 private:
  void CutStream(int64_t most);
  void CutLines(SampleBreak sample_break, int64_t most);
  void Add(int64_t begin, int64_t length, int64_t most);

  std::unique_ptr<const TokenDataset> tokens_;
  std::vector<int64_t> begins_;   // tokens from the start of the file
  std::vector<int32_t> lengths_;  // tokens, without <s>
  int64_t too_long_ = 0;
  std::string fingerprint_;
};

}  // namespace dtrain::data
