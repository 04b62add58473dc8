// Tokens that are looked for in a text before anything else is done with it, as `tokenizers` does: special tokens, and
// those that were added to a finished vocabulary, such as ModernBERT's runs of spaces.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::data {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool takes_spaces_before = false, takes_spaces_behind = false;  // lstrip, rstrip
};

// Those that are looked for in a text as it is, and those that are looked for after it has been normalised.
struct FoundTokens {
  std::vector<AddedToken> raw, normalised;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);  // contents are not empty

  bool empty() const { return tokens_.empty(); }

  // Calls `token` with an added token's id and its place in the text, and `part` with each part between them that is
  // not empty, in their order. Of the tokens that begin at a place, the longest counts.
  void Split(std::string_view text, const std::function<void(std::string_view)>& part,
             const std::function<void(int32_t, std::string_view)>& token) const;

 private:
  const AddedToken* FindAt(std::string_view text) const;

  std::vector<AddedToken> tokens_;       // the longest first
  std::bitset<1 << 16> may_begin_ = {};  // by the first two bytes
};

}  // namespace dtrain::data
