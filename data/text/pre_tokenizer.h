// GPT-2's pre-tokenisation: text is cut into pieces before pairs are merged, and no token reaches over a cut. The cuts
// are those of this regular expression, without a regular expression:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
#pragma once

#include <string_view>

namespace dtrain::data {

// Takes the first piece off the front of `text`: valid UTF-8, not empty. Time is linear in the piece.
std::string_view TakePiece(std::string_view& text);

}  // namespace dtrain::data
