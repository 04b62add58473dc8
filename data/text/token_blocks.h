// Blocks of neighbouring tokens, the samples of a language model, cut from lines of text as in fairseq's
// TokenBlockDataset, or as in transformers' run_mlm.py. This is a view of the lines: a record is a block's tokens as
// they are stored, for fairseq's without the <s> in front, which the decoder adds (token_rows.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/token_dataset.h"
#include "data/record_source.h"
#include "data/text/tokenizer.h"

namespace dtrain::data {

struct RawTextOptions {
  std::vector<uint32_t> ids = {};  // of the model, by the tokenizer's; empty: they are the same
  bool skips_blank = false;        // leaves out lines of white space
};

// A file of text that is tokenized when it is opened, on all cores, so that a masked language model can learn from text
// without token files. All tokens are in memory: for much text, dtrain_data tokenize writes files that many runs and
// ranks share. Lines are kept as they are, white space included, and end with the tokenizer's </s>. Throws DataError if
// the file cannot be read, needs more memory than there is, is not UTF-8, or has no line.
std::unique_ptr<const TokenStream> OpenRawText(const std::string& path, const Tokenizer& tokenizer,
                                               const RawTextOptions& options);

enum class SampleBreak {
  kNone,      // consecutive tokens, regardless of line ends
  kComplete,  // as many whole lines as fit; a line that does not fit alone is left out
  // As kComplete, but a line with only </s> ends a document and therefore the block, and belongs to none; blocks of one
  // token are left out.
  kCompleteDoc,
  kEos,  // one line per block
  // run_mlm.py's: each line between <s> and </s>, and all of them cut into pieces of whole length. It takes a thousand
  // lines at a time, and of these leaves out what fills no piece, unless it is all.
  kJoined,
  kLines,  // run_mlm.py's with --line_by_line: as kEos, but a line that is too long loses its end; none is empty
};

// Parses none, complete, complete_doc, eos, joined or lines. Throws std::invalid_argument for any other word.
SampleBreak SampleBreakFromName(std::string_view name);

class TokenBlocks : public RecordSource {
 public:
  // A block has at most tokens_per_sample tokens including the <s> in front; longer ones are left out and counted.
  // `dictionary` is the fingerprint of what the tokens mean, and part of that of the blocks; `special` has its <s> and
  // </s>. Throws DataError if no block is left, and std::invalid_argument if tokens_per_sample is below 2.
  TokenBlocks(std::unique_ptr<const TokenStream> tokens, SampleBreak sample_break, int64_t tokens_per_sample,
              const std::string& dictionary = "", const SpecialTokens& special = {});

  int64_t size() const override { return static_cast<int64_t>(begins_.size()); }
  RecordKind kind() const override { return RecordKind::kTokens; }
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override;
  std::string fingerprint() const override { return fingerprint_; }

  TokenType type() const { return tokens_->type(); }
  // The number of tokens of a block including the <s> in front.
  int64_t length(int64_t index) const { return front() + int64_t{lengths_[static_cast<size_t>(index)]}; }
  int64_t front() const { return break_ == SampleBreak::kJoined ? 0 : 1; }  // tokens that a record lacks in front
  int64_t too_long() const { return too_long_; }                            // number of blocks that were left out

 private:
  // Where a piece of joined lines begins.
  struct Start {
    int64_t line = 0;
    int64_t skipped = 0;  // tokens of the line before it, of which <s> is the first
  };

  void CutStream(int64_t most);
  void CutLines(int64_t most);
  void CutEachLine(int64_t most);
  void CutJoined(int64_t most);
  void Add(int64_t begin, int64_t length, int64_t most);
  std::vector<uint8_t> ReadJoined(size_t index) const;

  std::unique_ptr<const TokenStream> tokens_;
  const SampleBreak break_;
  const SpecialTokens special_;
  std::vector<int64_t> begins_;   // position of the first token in the stream; kJoined: of its line's first
  std::vector<int32_t> lengths_;  // tokens, without the <s> in front that a record lacks
  std::vector<Start> starts_;     // kJoined only
  int64_t too_long_ = 0;
  std::string fingerprint_;
};

}  // namespace dtrain::data
