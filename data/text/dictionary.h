// fairseq's dict.txt, which gives symbols their ids. Each line is `SYMBOL COUNT`. Line k (from 0) has id 4 + k, because
// four special tokens come first, which are not in the file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dtrain::data {

// The ids of the special tokens in every dictionary.
inline constexpr int64_t kBeginToken = 0;    // <s>
inline constexpr int64_t kPadToken = 1;      // <pad>
inline constexpr int64_t kEndToken = 2;      // </s>
inline constexpr int64_t kUnknownToken = 3;  // <unk>
inline constexpr int64_t kSpecialTokens = 4;

// A vocabulary has the special tokens and <mask> at least.
inline constexpr int64_t kSmallestVocabulary = kSpecialTokens + 1;

// The symbol that follows all others, unless the file contains it.
inline constexpr char kMaskSymbol[] = "<mask>";

class Dictionary {
 public:
  static constexpr char kFiller[] = "madeupword";  // and four digits
  struct Entry {
    std::string symbol;
    int64_t count = 0;
    bool operator==(const Entry&) const = default;
    // Whether fairseq-preprocess has added it to make the size a multiple of 8.
    bool is_filler() const { return count == 0 && symbol.starts_with(kFiller); }
  };

  // Parses the content of a file. Throws DataError with the line's number if a line has no count, repeats a symbol,
  // contains a special token, or has fairseq's mark for overwriting a symbol, and if there are more than 2^24 lines.
  static Dictionary Parse(std::string_view text);
  // The same from a file of at most 256 MiB; the error names it.
  static Dictionary Load(const std::string& path);

  // Makes a dictionary as fairseq-preprocess does: sorted by falling count, equal counts in string order, then padded
  // with fillers, until the size including the special tokens is a multiple of 8.
  static Dictionary Count(const std::map<std::string, int64_t>& counts);

  explicit Dictionary(std::vector<Entry> entries);  // each symbol must occur once

  const std::vector<Entry>& entries() const { return entries_; }
  std::string ToText() const;  // the content of dict.txt
  // A hash of the symbols in their order: equal ones give ids the same meaning.
  std::string fingerprint() const;

  // Number of ids including the special tokens, without <mask> unless the file has it. fairseq-preprocess chooses the
  // token type by it.
  int64_t size() const { return kSpecialTokens + static_cast<int64_t>(entries_.size()); }
  // Returns kUnknownToken for a symbol that is not in the file.
  int64_t IdOf(const std::string& symbol) const;

  // The id of <mask>: after all other ids, unless the file has it. It is part of a model's vocabulary.
  int64_t mask_token() const;
  int64_t vocabulary() const { return std::max(size(), mask_token() + 1); }

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string, int64_t> ids_;
};

}  // namespace dtrain::data
