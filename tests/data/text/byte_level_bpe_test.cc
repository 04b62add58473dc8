#include "data/text/byte_level_bpe.h"

#include <gmock/gmock.h>

#include "tests/data/text/small_tokenizer.h"
#include "tests/message_of.h"

namespace dtrain::data {
namespace {

using testing::HasSubstr;

// The merged tokens: 256 ab, 257 bc, 258 abc (of ab and c), 259 " a" in the vocabulary's notation.
const SmallTokenizer kSmall({{"a", "b"}, {"b", "c"}, {"ab", "c"}, {"\xC4\xA0", "a"}});

TEST(ByteLevelBpe, WrongFilesAreNamed) {
  const auto message = [](const std::string& vocabulary, const std::string& merges) {
    return MessageOf([&] { ByteLevelBpe(vocabulary, merges); });
  };
  SmallTokenizer no_byte({});
  no_byte.vocabulary.erase("\xC4\xA0");
  EXPECT_THAT(message(no_byte.Json(), no_byte.merges), HasSubstr("no token for the byte 0x20"));
  EXPECT_THAT(message("[1]", ""), HasSubstr("not a JSON object"));
  EXPECT_THAT(message("{", ""), HasSubstr("not a JSON object"));
  EXPECT_THAT(message(R"({"a": -1})", ""), HasSubstr("id is not a whole number"));
  EXPECT_THAT(message(R"({"a": 123456789012})", ""), HasSubstr("id is not a whole number"));
  EXPECT_THAT(message(R"({"a": 0, "b": 0})", ""), HasSubstr("two tokens with the id 0"));
  EXPECT_THAT(message(kSmall.Json(), "#version\nab c d\n"), HasSubstr("line 2: expected two tokens"));
  EXPECT_THAT(message(kSmall.Json(), "a b\nab q\n"), HasSubstr("line 2: the token that they form is not"));
  EXPECT_THAT(message(kSmall.Json(), "aq b\n"), HasSubstr("its first word"));
}

}  // namespace
}  // namespace dtrain::data
