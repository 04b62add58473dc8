#include "data/text/token_blocks.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "data/error.h"
#include "data/sha256.h"

namespace dtrain::data {

SampleBreak SampleBreakFromName(std::string_view name) {
  if (name == "none") return SampleBreak::kNone;
  if (name == "complete") return SampleBreak::kComplete;
  if (name == "complete_doc") return SampleBreak::kCompleteDoc;
  if (name == "eos") return SampleBreak::kEos;
  throw std::invalid_argument("sample_break is complete, complete_doc, eos or none, not '" + std::string(name) + "'");
}

TokenBlocks::TokenBlocks(std::unique_ptr<const TokenDataset> tokens, SampleBreak sample_break,
                         int64_t tokens_per_sample, const std::string& dictionary)
    : tokens_(std::move(tokens)) {
  if (tokens_per_sample < 2) throw std::invalid_argument("a block has room for <s> and a token at least");
  const int64_t most = tokens_per_sample - 1;
  if (sample_break == SampleBreak::kNone) {
    CutStream(most);
  } else {
    CutLines(sample_break, most);
  }
  if (begins_.empty()) {
    throw DataError(tokens_->Place(0).file + " has no block of at most " + std::to_string(tokens_per_sample) +
                        " tokens: all " + std::to_string(too_long_) + " are longer",
                    "raise --tokens_per_sample, or cut lines with --sample_break=none");
  }
  Sha256 hash;
  hash.UpdateText(tokens_->fingerprint());
  hash.UpdateInteger(static_cast<int64_t>(sample_break));
  hash.UpdateInteger(tokens_per_sample);
  hash.UpdateText(dictionary);
  fingerprint_ = hash.Hex();
}

void TokenBlocks::Add(int64_t begin, int64_t length, int64_t most) {
  if (length == 0) return;  // a line without even </s> has nothing to learn
  if (length > most) {
    ++too_long_;
    return;
  }
  begins_.push_back(begin);
  lengths_.push_back(static_cast<int32_t>(length));
}

void TokenBlocks::CutStream(int64_t most) {
  for (int64_t begin = 0; begin < tokens_->tokens(); begin += most) {
    Add(begin, std::min(most, tokens_->tokens() - begin), most);
  }
}

void TokenBlocks::CutLines(SampleBreak sample_break, int64_t most) {
  const bool documents = sample_break == SampleBreak::kCompleteDoc;
  const int64_t longest = sample_break == SampleBreak::kEos ? 0 : most;  // 0: every line is a block
  int64_t begin = 0, length = 0;                                         // of the current block
  const auto close = [&] {
    if (!documents || length > 1) Add(begin, length, most);
    begin += length;
    length = 0;
  };
  tokens_->ForEachSize([&](int64_t /*line*/, int64_t size) {
    const bool ends_document = documents && size == 1;
    if (ends_document || (length > 0 && length + size > longest)) close();
    if (ends_document) {
      begin += size;
    } else {
      length += size;
    }
  });
  close();
}

std::vector<uint8_t> TokenBlocks::Read(int64_t index) const {
  const auto i = static_cast<size_t>(index);
  return tokens_->ReadTokens(begins_[i], lengths_[i]);
}

RecordPlace TokenBlocks::Place(int64_t index) const {
  return tokens_->PlaceOfToken(begins_[static_cast<size_t>(index)]);
}

}  // namespace dtrain::data
