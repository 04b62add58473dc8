#include "data/text/dictionary.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "data/text/byte_level_bpe.h"
#include "data/text/tokenizer.h"
#include "tests/data/text/small_tokenizer.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

using testing::HasSubstr;

TEST(Dictionary, LinesCountFromFour) {
  const auto dictionary = Dictionary::Parse("13 1850314647\n262 1800000000\na b 3 \n");
  EXPECT_EQ(dictionary.size(), 7);
  EXPECT_EQ(dictionary.IdOf("13"), 4);
  EXPECT_EQ(dictionary.IdOf("a b"), 6);
  EXPECT_EQ(dictionary.IdOf("<s>"), kUnknownToken);
  EXPECT_EQ(dictionary.mask_token(), 7);
  EXPECT_EQ(dictionary.vocabulary(), 8);
  EXPECT_EQ(dictionary.ToText(), "13 1850314647\n262 1800000000\na b 3\n");
  EXPECT_EQ(Dictionary::Parse("x 1").size(), 5);
  EXPECT_EQ(Dictionary::Parse("").size(), 4);
}

TEST(Dictionary, MayHaveTheMaskItself) {
  const auto dictionary = Dictionary::Parse("x 1\n<mask> 0\ny 1\n");
  EXPECT_EQ(dictionary.mask_token(), 5);
  EXPECT_EQ(dictionary.vocabulary(), 7);
}

// fairseq's, in order of frequency, do; that of GPT-2's numbers does not.
TEST(Dictionary, GoesWithATokenizerWhoseTokensItLists) {
  const TemporaryFolder folder;
  folder.Write("vocab.json", SmallRobertaVocabulary().dump());
  folder.Write("merges.txt", SmallMerges().merges);
  const auto tokenizer = OpenTokenizer(*FindTokenizer(folder.path()));
  EXPECT_TRUE(tokenizer->GoesWith(Dictionary::Parse("b 2\nab 1\nmadeupword0000 0\n")));
  EXPECT_FALSE(tokenizer->GoesWith(Dictionary::Parse("13 2\n262 1\n")));
}

TEST(Dictionary, MistakesAreNamed) {
  const auto message = [](const char* text) { return MessageOf([&] { Dictionary::Parse(text); }); };
  EXPECT_THAT(message("a 1\nb\n"), HasSubstr("line 2: expected a symbol"));
  EXPECT_THAT(message("a 1\n\nb 1\n"), HasSubstr("line 2"));
  EXPECT_THAT(message("a x\n"), HasSubstr("line 1: the last word is not a count"));
  EXPECT_THAT(message("a -1\n"), HasSubstr("not a count"));
  EXPECT_THAT(message("a 1\nb 1\na 2\n"), HasSubstr("line 3: the symbol was already given in line 1"));
  EXPECT_THAT(message("<pad> 1\n"), HasSubstr("the symbol is one of the special ones"));
  EXPECT_ERROR("overwrite others (#fairseq:overwrite) are not supported | write the line with a symbol that is new",
               Dictionary::Parse("a 1 #fairseq:overwrite\n"));
}

TEST(Dictionary, AFileOfAnySizeIsRefusedUnread) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("dict.txt", "a 1\n");
  std::filesystem::resize_file(path, uint64_t{1} << 40);  // without blocks on the disk
  EXPECT_ERROR("1099511627776 bytes, more than the limit", Dictionary::Load(path));
}

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

TEST(ByteLevelBpe, LinesOfMergesEndAsThoseOfAnyText) {
  std::string merges = kSmall.merges;
  std::ranges::replace(merges, '\n', '\r');
  const ByteLevelBpe bpe(kSmall.Json(), merges);
  std::vector<uint32_t> ids;
  BpeEncoder(bpe).Encode("abc", ids);
  EXPECT_EQ(ids, std::vector<uint32_t>{258});
}

}  // namespace
}  // namespace dtrain::data
