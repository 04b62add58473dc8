// Text that is tokenized when it is opened (token_blocks.h).
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>

#include "data/error.h"
#include "data/formats/in_parallel.h"
#include "data/machine/limits.h"
#include "data/sha256.h"
#include "data/storage.h"
#include "data/text/text_lines.h"
#include "data/text/token_blocks.h"

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
    Sha256 hash;
    hash.UpdateText(std::filesystem::path(path).filename().string());
    hash.UpdateInteger(static_cast<int64_t>(file.size()));
    hash.Update(tokens_.data(), tokens_.size() * sizeof(tokens_[0]));
    hash.Update(sizes_.data(), sizes_.size() * sizeof(sizes_[0]));
    fingerprint_ = hash.Hex();
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

}  // namespace dtrain::data
