#include "data/text/utf8.h"

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

struct Case {
  std::string bytes, replaced;  // R stands for U+FFFD
};

// The results of Python 3.11's bytes.decode(errors="replace").
const Case kCases[] = {
    {"plain and longer than eight", "plain and longer than eight"},
    {"caf\xC3\xA9", "caf\xC3\xA9"},
    {"caf\xE9", "cafR"},
    {"\x80\xBF", "RR"},
    {"\xC0\xAF", "RR"},
    {"\xC2", "R"},
    {"\xE2\x82", "R"},
    {"\xE2\x82x", "Rx"},
    {"\xE0\x80\x80", "RRR"},
    {"\xED\xA0\x80", "RRR"},
    {"\xED\x9F\xBF", "\xED\x9F\xBF"},
    {"\xF0\x9F\x98", "R"},
    {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
    {"\xF0\x8F\xBF\xBF", "RRRR"},
    {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
    {"\xF4\x90\x80\x80", "RRRR"},
    {"\xF5\xFF", "RR"},
    {"12345678\xFF"
     "12345678",
     "12345678R12345678"},
};

TEST(Utf8, ReplacesAsPythonDoes) {
  for (const Case& one : kCases) {
    std::string expected;
    int64_t count = 0, replaced = 0;
    for (const char c : one.replaced) {
      expected += c == 'R' ? "\xEF\xBF\xBD" : std::string(1, c);
      count += c == 'R';
    }
    EXPECT_EQ(IsUtf8(one.bytes), count == 0) << one.replaced;
    EXPECT_EQ(ReplaceInvalidUtf8(one.bytes, replaced), expected) << one.replaced;
    EXPECT_EQ(replaced, count);
  }
}

TEST(Utf8, ReadsCodePoints) {
  EXPECT_EQ(CodePointAt("a"), 0x61U);
  EXPECT_EQ(CodePointAt("\xC3\xA9"), 0xE9U);
  EXPECT_EQ(CodePointAt("\xE2\x82\xAC"), 0x20ACU);
  EXPECT_EQ(CodePointAt("\xF4\x8F\xBF\xBF"), 0x10FFFFU);
}

}  // namespace
}  // namespace dtrain::data
