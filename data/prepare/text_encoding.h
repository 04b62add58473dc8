// Encodes text files into stored tokens. Many threads encode lines, which are written in their order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/formats/token_dataset.h"
#include "data/partial_file.h"
#include "data/storage.h"
#include "data/text/tokenizer.h"

namespace dtrain::data {

// The stored number of each token of the tokenizer.
struct Numbering {
  std::vector<uint32_t> ids;
  uint32_t end = 0;  // stored behind each line
  TokenType type = TokenType::kUInt16;
};

// Text files in pieces of whole lines.
class TextFiles {
 public:
  // Throws DataError if a file cannot be opened.
  explicit TextFiles(const std::vector<std::string>& paths);
  size_t pieces() const { return pieces_.size(); }
  std::string Piece(size_t i) const;

 private:
  struct Place {
    size_t file;
    uint64_t begin;
  };
  std::vector<RandomAccessFile> files_;
  std::vector<Place> pieces_;
};

// The totals of the whole text.
struct Totals {
  std::vector<int32_t> sizes;   // tokens of each line
  std::vector<int64_t> counts;  // occurrences of each token of the tokenizer
  int64_t tokens = 0, replaced = 0;
};

// Appends all lines to `output`, encoded and numbered. Throws DataError if a line has 2^31 tokens or more.
Totals EncodeText(const TextFiles& text, const Tokenizer& tokenizer, const Numbering& numbering, size_t threads,
                  PartialFile& output);

// Copies the stored tokens of a file and replaces each by its entry in `numbering`.ids. `type` is their type in the
// file.
void Renumber(const std::string& path, TokenType type, const Numbering& numbering, size_t threads, PartialFile& output);

}  // namespace dtrain::data
