// fairseq's dict.txt: which id a symbol has. `SYMBOL COUNT` a line; line k (from 0) is id 4 + k, for the four specials
// come first and are not in the file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dtrain::data {

// The ids that every dictionary has.
inline constexpr int64_t kBeginToken = 0;    // <s>
inline constexpr int64_t kPadToken = 1;      // <pad>
inline constexpr int64_t kEndToken = 2;      // </s>
inline constexpr int64_t kUnknownToken = 3;  // <unk>
inline constexpr int64_t kSpecialTokens = 4;

// The symbol whose id is last.
inline constexpr char kMaskSymbol[] = "<mask>";

class Dictionary {
 public:
  struct Entry {
    std::string symbol;
    int64_t count = 0;
    bool operator==(const Entry&) const = default;
  };

  // The content of a file. Throws DataError with the line's number: no count, a symbol twice, or one of the specials.
  static Dictionary Parse(std::string_view text);
  // The same, and the error names the file.
  static Dictionary Load(const std::string& path);

  // As fairseq-preprocess makes one: by count, falling; equal counts in string order; then madeupword0000 and so on, of
  // count 0, until the size with the specials is a multiple of 8.
  static Dictionary Count(const std::map<std::string, int64_t>& counts);

  explicit Dictionary(std::vector<Entry> entries);  // each symbol once

  const std::vector<Entry>& entries() const { return entries_; }
  std::string ToText() const;

  // With the specials, without <mask>: what fairseq-preprocess chooses the token type by.
  int64_t size() const { return kSpecialTokens + static_cast<int64_t>(entries_.size()); }
  // kUnknownToken for a symbol that is not in the file.
  int64_t IdOf(const std::string& symbol) const;

  // <mask>: after all the others, unless the file has it. A model's vocabulary has it, too.
  int64_t mask_token() const;
  int64_t vocabulary() const { return std::max(size(), mask_token() + 1); }

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string, int64_t> ids_;
};

}  // namespace dtrain::data
