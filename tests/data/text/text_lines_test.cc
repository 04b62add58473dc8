#include "data/text/text_lines.h"

#include <gmock/gmock.h>

namespace dtrain::data {
namespace {

using testing::ElementsAre;

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) lines.emplace_back(TakeLine(text));
  return lines;
}

TEST(TextLines, EndAsPythonsTextFilesHaveThem) {
  EXPECT_THAT(Lines("a\nb\r\nc\rd"), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(Lines("\n\r\n\r\r"), ElementsAre("", "", "", ""));
  EXPECT_THAT(Lines("a\n"), ElementsAre("a"));
  EXPECT_THAT(Lines(""), ElementsAre());
}

TEST(TextLines, AreStrippedAsPythonStrips) {
  EXPECT_EQ(Stripped(" \t a b \xC2\x85\x1C"), "a b");
  EXPECT_EQ(Stripped("\xE3\x80\x80\xE2\x80\xAFx\xC2\xA0"), "x");
  EXPECT_EQ(Stripped(" \n "), "");
  EXPECT_EQ(Stripped("\xE2\x80\x8Bx"), "\xE2\x80\x8Bx");  // U+200B is not white space
  EXPECT_EQ(Stripped(" \x80 x\xFF "), "\x80 x\xFF");
}

// Each line is in exactly one part, whole, whatever the size of the parts.
TEST(TextLines, ArePartedWhole) {
  const std::string text = "one\n\nthree is longer\n4\r\n\nsix";
  const MemoryBytes file({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  for (uint64_t bytes = 1; bytes <= text.size() + 1; ++bytes) {
    std::string all;
    for (uint64_t begin = 0; begin < text.size(); begin += bytes) {
      const std::string part = LinesBeginningIn(file, begin, bytes);
      EXPECT_TRUE(part.empty() || part.ends_with('\n') || all + part == text);
      all += part;
    }
    EXPECT_EQ(all, text) << bytes;
  }
}

}  // namespace
}  // namespace dtrain::data
