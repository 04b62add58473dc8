#include "data/text/pre_tokenizer.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace dtrain::data {
namespace {

using testing::ElementsAre;

std::vector<std::string> Pieces(std::string_view text) {
  std::vector<std::string> pieces;
  while (!text.empty()) pieces.emplace_back(TakePiece(text));
  return pieces;
}

// tests/interop/test_tokenizer.py compares many more texts with `tokenizers`.
TEST(PreTokenizer, CutsAsGpt2Does) {
  EXPECT_THAT(Pieces("Hello world's 2024!"), ElementsAre("Hello", " world", "'s", " 2024", "!"));
  EXPECT_THAT(Pieces("we'll WE'LL !'s ''ve"), ElementsAre("we", "'ll", " WE", "'", "LL", " !'", "s", " ''", "ve"));
  EXPECT_THAT(Pieces("a  b\n\n c "), ElementsAre("a", " ", " b", "\n\n", " c", " "));
  EXPECT_THAT(Pieces("a\t b   "), ElementsAre("a", "\t", " b", "   "));
  EXPECT_THAT(Pieces("\xC2\xA0\xC2\xA0x"), ElementsAre("\xC2\xA0", "\xC2\xA0", "x"));
  EXPECT_THAT(Pieces("x\xC2\xB2y"), ElementsAre("x", "\xC2\xB2", "y"));  // a superscript two is a number
  EXPECT_THAT(Pieces("e\xCC\x81t"), ElementsAre("e", "\xCC\x81", "t"));  // a combining accent is not a letter
}

}  // namespace
}  // namespace dtrain::data
