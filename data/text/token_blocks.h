// Blocks of neighbouring tokens, the samples of a language model, cut from a token file as in fairseq's
// TokenBlockDataset. This is a view of the file: a record is a block's tokens as they are stored, without the <s> in
// front, which the decoder adds (token_row_decoder.h).
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
  kNone,      // consecutive tokens, regardless of line ends
  kComplete,  // as many whole lines as fit; a line that does not fit alone is left out
  // As kComplete, but a line with only </s> ends a document and therefore the block, and belongs to none; blocks of one
  // token are left out.
  kCompleteDoc,
  kEos,  // one line per block
};

// Parses none, complete, complete_doc or eos. Throws std::invalid_argument for any other word.
SampleBreak SampleBreakFromName(std::string_view name);

class TokenBlocks : public RecordSource {
 public:
  // A block has at most tokens_per_sample tokens including the <s> in front; longer ones are left out and counted.
  // `dictionary` is the fingerprint of what the tokens mean, and part of that of the blocks. Throws DataError if no
  // block is left, and std::invalid_argument if tokens_per_sample is below 2.
  TokenBlocks(std::unique_ptr<const TokenDataset> tokens, SampleBreak sample_break, int64_t tokens_per_sample,
              const std::string& dictionary = "");

  int64_t size() const override { return static_cast<int64_t>(begins_.size()); }
  RecordKind kind() const override { return RecordKind::kTokens; }
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override;
  std::string fingerprint() const override { return fingerprint_; }

  TokenType type() const { return tokens_->type(); }
  // The number of tokens of a block including the <s> in front.
  int64_t length(int64_t index) const { return 1 + int64_t{lengths_[static_cast<size_t>(index)]}; }
  int64_t too_long() const { return too_long_; }  // number of blocks that were left out

 private:
  void CutStream(int64_t most);
  void CutLines(SampleBreak sample_break, int64_t most);
  void Add(int64_t begin, int64_t length, int64_t most);

  std::unique_ptr<const TokenDataset> tokens_;
  std::vector<int64_t> begins_;   // position of the first token in the file, in tokens
  std::vector<int32_t> lengths_;  // tokens, without <s>
  int64_t too_long_ = 0;
  std::string fingerprint_;
};

}  // namespace dtrain::data
