#include "data/text/utf8.h"

#include <gtest/gtest.h>

namespace dtrain::data {
namespace {

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
