// GPT-2's pre-tokenisation: text is cut into pieces before pairs are merged, and no token crosses a cut. The cuts are
// those of this regular expression, found without a regular expression engine:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
#pragma once

#include <string_view>

namespace dtrain::data {

// Removes the first piece from `text`, which must be valid UTF-8 and not empty, and returns it. Takes time linear in
// the piece.
std::string_view TakePiece(std::string_view& text);

}  // namespace dtrain::data
