#include "data/text/token_blocks.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "data/error.h"
#include "data/formats/in_parallel.h"
#include "data/machine/limits.h"
#include "data/sha256.h"
#include "data/storage.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

// The lines of a part of the file.
struct TokensOfLines {
  std::vector<uint32_t> tokens;
  std::vector<int32_t> sizes;
};

TokensOfLines TokenizedLines(std::string_view text, const std::string& path, const Tokenizer& tokenizer,
                             const RawTextOptions& options) {
  const std::unique_ptr<TextEncoder> encoder = tokenizer.MakeEncoder();
  encoder->Renumber(options.ids);
  TokensOfLines done;
  while (!text.empty()) {
    const std::string_view one = TakeLine(text);
    if (options.skips_blank && Stripped(one).empty()) continue;
    const size_t before = done.tokens.size();
    encoder->Encode(one, done.tokens);
    done.tokens.push_back(static_cast<uint32_t>(tokenizer.special().end));
    done.sizes.push_back(static_cast<int32_t>(done.tokens.size() - before));
  }
  if (encoder->replaced() > 0) throw DataError(path + " is not UTF-8 text", "convert the file to UTF-8 with iconv");
  return done;
}

class RawText : public TokenStream {
 public:
  RawText(const std::string& path, const Tokenizer& tokenizer, const RawTextOptions& options) : path_(path) {
    RequireRoomInMemory(path);
    const RandomAccessFile file(path);
    const auto parts = static_cast<size_t>(AvailableCores());
    const uint64_t part_bytes = file.size() / parts + 1;
    std::vector<TokensOfLines> done(parts);
    const auto tokenize = [&](size_t part) {
      const std::string text = LinesBeginningIn(file, part * part_bytes, part_bytes);
      done[part] = TokenizedLines(text, path, tokenizer, options);
    };
    InParallel(parts, tokenize, 1, parts);
    for (TokensOfLines& part : done) {
      tokens_.insert(tokens_.end(), part.tokens.begin(), part.tokens.end());
      sizes_.insert(sizes_.end(), part.sizes.begin(), part.sizes.end());
      part = {};
    }
    if (sizes_.empty()) throw DataError(path + " has no lines of text");
    fingerprint_ = Sha256()
                       .UpdateFile(path, file.size())
                       .Update(tokens_.data(), tokens_.size() * sizeof(tokens_[0]))
                       .Update(sizes_.data(), sizes_.size() * sizeof(sizes_[0]))
                       .Hex();
  }

  TokenType type() const override { return TokenType::kUInt32; }
  int64_t tokens() const override { return static_cast<int64_t>(tokens_.size()); }
  void ForEachSize(const std::function<void(int64_t line, int64_t size)>& visit) const override {
    for (size_t line = 0; line < sizes_.size(); ++line) visit(static_cast<int64_t>(line), sizes_[line]);
  }
  int64_t SizeOf(int64_t line) const override { return sizes_[static_cast<size_t>(line)]; }
  std::vector<uint8_t> ReadTokens(int64_t begin, int64_t count) const override {
    std::vector<uint8_t> bytes(static_cast<size_t>(count) * sizeof(uint32_t));
    std::memcpy(bytes.data(), tokens_.data() + begin, bytes.size());
    return bytes;
  }
  RecordPlace PlaceOfToken(int64_t /*token*/) const override { return {.file = path_}; }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  const std::string path_;
  std::vector<uint32_t> tokens_;
  std::vector<int32_t> sizes_;  // tokens of each line
  std::string fingerprint_;
};

}  // namespace

std::unique_ptr<const TokenStream> OpenRawText(const std::string& path, const Tokenizer& tokenizer,
                                               const RawTextOptions& options) {
  return std::make_unique<RawText>(path, tokenizer, options);
}

// ---- Blocks ----

SampleBreak SampleBreakFromName(std::string_view name) {
  if (name == "none") return SampleBreak::kNone;
  if (name == "complete") return SampleBreak::kComplete;
  if (name == "complete_doc") return SampleBreak::kCompleteDoc;
  if (name == "eos") return SampleBreak::kEos;
  if (name == "joined") return SampleBreak::kJoined;
  if (name == "lines") return SampleBreak::kLines;
  throw std::invalid_argument("sample_break is complete, complete_doc, eos, none, joined or lines, not '" +
                              std::string(name) + "'");
}

TokenBlocks::TokenBlocks(std::unique_ptr<const TokenStream> tokens, SampleBreak sample_break, int64_t tokens_per_sample,
                         const std::string& dictionary, const SpecialTokens& special)
    : tokens_(std::move(tokens)), break_(sample_break), special_(special) {
  if (tokens_per_sample < 2) throw std::invalid_argument("a block has room for <s> and a token at least");
  const int64_t most = tokens_per_sample - front();
  switch (sample_break) {
    case SampleBreak::kNone:
      CutStream(most);
      break;
    case SampleBreak::kJoined:
      CutJoined(most);
      break;
    case SampleBreak::kLines:
      CutEachLine(most);
      break;
    default:
      CutLines(most);
  }
  if (begins_.empty()) {
    throw DataError(tokens_->PlaceOfToken(0).file + " has no block of at most " + std::to_string(tokens_per_sample) +
                        " tokens: all " + std::to_string(too_long_) + " are longer",
                    "raise --tokens_per_sample, or cut lines with --sample_break=none");
  }
  fingerprint_ = Sha256()
                     .UpdateText(tokens_->fingerprint())
                     .UpdateInteger(static_cast<int64_t>(sample_break))
                     .UpdateInteger(tokens_per_sample)
                     .UpdateText(dictionary)
                     .Hex();
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

void TokenBlocks::CutEachLine(int64_t most) {
  int64_t begin = 0;
  tokens_->ForEachSize([&](int64_t /*line*/, int64_t size) {
    if (size > 1) Add(begin, std::min(size, most), most);
    begin += size;
  });
}

void TokenBlocks::CutJoined(int64_t most) {
  constexpr int64_t kLinesAtATime = 1000;
  int64_t begin = 0, line_begin = 0, length = 0, of_these_lines = 0;  // of the current block, and blocks so far
  Start start;
  const auto close = [&] {
    Add(begin, length, most);
    if (length > 0) starts_.push_back(start), ++of_these_lines;
    length = 0;
  };
  const auto end_lines = [&] {
    if (of_these_lines > 0) length = 0;
    close();
    of_these_lines = 0;
  };
  tokens_->ForEachSize([&](int64_t line, int64_t size) {
    if (line % kLinesAtATime == 0) end_lines();
    for (int64_t taken = 0; size > 0 && taken < 1 + size;) {
      if (length == 0) begin = line_begin, start = {line, taken};
      const int64_t more = std::min(most - length, 1 + size - taken);
      length += more;
      taken += more;
      if (length == most) close();
    }
    line_begin += size;
  });
  end_lines();
}

void TokenBlocks::CutLines(int64_t most) {
  const bool documents = break_ == SampleBreak::kCompleteDoc;
  const int64_t longest = break_ == SampleBreak::kEos ? 0 : most;  // 0: every line is a block
  int64_t begin = 0, length = 0;                                   // of the current block
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
  if (break_ == SampleBreak::kJoined) return ReadJoined(i);
  std::vector<uint8_t> bytes = tokens_->ReadTokens(begins_[i], lengths_[i]);
  if (break_ == SampleBreak::kLines) StoreToken(type(), special_.end, bytes.data() + bytes.size() - TokenBytes(type()));
  return bytes;
}

std::vector<uint8_t> TokenBlocks::ReadJoined(size_t index) const {
  const int64_t token_bytes = TokenBytes(type());
  std::vector<uint8_t> bytes(static_cast<size_t>(lengths_[index] * token_bytes));
  auto [line, skipped] = starts_[index];
  int64_t begin = begins_[index];
  for (int64_t done = 0; done < lengths_[index]; ++line, skipped = 0) {
    const int64_t size = tokens_->SizeOf(line);
    if (size == 0) continue;
    if (skipped == 0) StoreToken(type(), special_.begin, bytes.data() + done++ * token_bytes), skipped = 1;
    const int64_t count = std::min<int64_t>(lengths_[index] - done, 1 + size - skipped);
    std::ranges::copy(tokens_->ReadTokens(begin + skipped - 1, count), bytes.data() + done * token_bytes);
    done += count;
    begin += size;
  }
  return bytes;
}

RecordPlace TokenBlocks::Place(int64_t index) const {
  return tokens_->PlaceOfToken(begins_[static_cast<size_t>(index)]);
}

}  // namespace dtrain::data
