// Token files in the format of fairseq's MMapIndexedDataset: PREFIX.bin holds the tokens of all items (lines of text)
// one after another, and PREFIX.idx their type, sizes and places (data/FORMAT.md).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/record_source.h"
#include "data/storage.h"

namespace dtrain::data {

// The stored type of a token. The values are the codes in the index.
enum class TokenType : uint8_t {
  kUInt8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUInt16 = 8,
  kUInt32 = 9,
  kUInt64 = 10,
};

// Returns the bytes of a stored token; 0 for a value that is not one of the above.
int64_t TokenBytes(TokenType type);

// Returns the type that fairseq-preprocess writes for a dictionary of `vocabulary` symbols.
TokenType TokenTypeFor(int64_t vocabulary);

// Converts stored tokens into int64; `tokens` has room for bytes.size() / TokenBytes(type) of them.
void WidenTokens(TokenType type, std::span<const uint8_t> bytes, int64_t* tokens);
std::vector<int64_t> WideTokens(TokenType type, std::span<const uint8_t> bytes);

// Stores one token, which the type can hold.
void StoreToken(TokenType type, int64_t token, uint8_t* bytes);

// The header of PREFIX.idx, before the sizes.
struct TokenIndexHeader {
  static constexpr uint64_t kBytes = 26;
  TokenType type = TokenType::kUInt16;
  int64_t items = 0;
};

// Parses the front of an index of `file_bytes` bytes. Throws DataError, which does not name the file.
TokenIndexHeader ParseTokenIndexHeader(std::span<const uint8_t> bytes, uint64_t file_bytes);
std::string MakeTokenIndexHeader(const TokenIndexHeader& header);

// Returns the path of a split's files without .bin and .idx: DIR/train, for "val" also DIR/validation and DIR/valid.
// Empty if there are none.
std::optional<std::string> FindTokenFiles(const std::string& data_dir, const std::string& split);

// The same, but throws DataError, which says which files were tried.
std::string RequireTokenFiles(const std::string& data_dir, const std::string& split);

// Lines of text as stored tokens, one after another, each with its </s> at the end.
class TokenStream {
 public:
  virtual ~TokenStream() = default;

  virtual TokenType type() const = 0;
  virtual int64_t tokens() const = 0;  // total of all lines

  // Calls visit(line, size) for every line in order, with its size in tokens. Throws DataError if the sizes cannot be
  // read.
  virtual void ForEachSize(const std::function<void(int64_t line, int64_t size)>& visit) const = 0;
  virtual int64_t SizeOf(int64_t line) const = 0;

  // Returns `count` tokens from number `begin` on, as they are stored.
  virtual std::vector<uint8_t> ReadTokens(int64_t begin, int64_t count) const = 0;
  virtual RecordPlace PlaceOfToken(int64_t token) const = 0;
  virtual std::string fingerprint() const = 0;
};

// A record is the tokens of one item, as they are stored. Neither sizes nor tokens are held in memory.
class TokenDataset : public RecordSource, public TokenStream {
 public:
  // Opens PREFIX.bin and PREFIX.idx and checks the whole index. Throws DataError, which names the file, if it is not
  // such an index, holds no item, does not fit PREFIX.bin, or if items are not stored one after another; and if
  // fairseq's numbered parts (train1.bin) lie beside it.
  explicit TokenDataset(const std::string& prefix);

  int64_t size() const override { return header_.items; }
  RecordKind kind() const override { return RecordKind::kTokens; }
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override;
  std::string fingerprint() const override { return fingerprint_; }

  TokenType type() const override { return header_.type; }
  int64_t tokens() const override { return tokens_; }
  void ForEachSize(const std::function<void(int64_t item, int64_t size)>& visit) const override;
  int64_t SizeOf(int64_t item) const override;
  std::vector<uint8_t> ReadTokens(int64_t begin, int64_t count) const override;
  RecordPlace PlaceOfToken(int64_t token) const override;

 private:
  void CheckIndex();

  RandomAccessFile index_, bin_;
  TokenIndexHeader header_;
  int64_t tokens_ = 0;
  std::string fingerprint_;
};

}  // namespace dtrain::data
