#include "data/shown.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using namespace std::string_literals;

TEST(Shown, LeavesPrintableTextOfAnyScript) {
  for (const char* text : {"", "a.jpg", "C:\\photos", "Übergröße", "日本語", "🦊", "a b  c", "\"quoted\""}) {
    EXPECT_EQ(Shown(text), text);
  }
}

TEST(Shown, EscapesWhatATerminalWouldActOn) {
  EXPECT_EQ(Shown("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(Shown("one\ntwo\r\tthree"), "one\\ntwo\\r\\tthree");
  EXPECT_EQ(Shown("\0\x7f"s), "\\x00\\x7f");
  EXPECT_EQ(Shown("\xc2\x9b"
                  "31m"),
            "\\u009b31m");                                // CSI as one character
  EXPECT_EQ(Shown("a\u202egpj.exe"), "a\\u202egpj.exe");  // right-to-left override
  EXPECT_EQ(Shown("a\u2028b\u200bc"), "a\\u2028b\\u200bc");
}

TEST(Shown, EscapesWhatIsNoUtf8) {
  EXPECT_EQ(Shown("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(Shown("\xc0\x8a"), "\\xc0\\x8a");  // an overlong line feed
  EXPECT_EQ(Shown("\xe0\x80\x8a"), "\\xe0\\x80\\x8a");
  EXPECT_EQ(Shown("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half a surrogate pair
  EXPECT_EQ(Shown("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(Shown("a\xe6\x97"), "a\\xe6\\x97");  // cut off
}

TEST(Shown, CutsLongTextsAndSaysSo) {
  EXPECT_EQ(Shown("abcdef", 6), "abcdef");
  EXPECT_EQ(Shown("abcdefg", 6), "abcdef... (7 bytes)");
  EXPECT_EQ(Shown("ab日", 3), "ab日");  // no character is cut in half
}

TEST(Shown, KeepsLinesOfItsOwnWhenAsked) {
  EXPECT_EQ(Shown("one\ntwo\x1b", std::string::npos, LineFeeds::kKept), "one\ntwo\\x1b");
}

}  // namespace
}  // namespace dtrain
