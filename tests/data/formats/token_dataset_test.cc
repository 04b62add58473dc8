#include "data/formats/token_dataset.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "data/error.h"
#include "data/formats/little_endian.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Returns an index of items of these sizes, one behind the other.
std::string Index(TokenType type, const std::vector<int32_t>& sizes) {
  std::string bytes = MakeTokenIndexHeader({.type = type, .items = static_cast<int64_t>(sizes.size())});
  for (const int32_t size : sizes) AppendLittleEndian(size, bytes);
  int64_t place = 0;
  for (const int32_t size : sizes) {
    AppendLittleEndian(place, bytes);
    place += size * TokenBytes(type);
  }
  return bytes;
}

std::string Shorts(const std::vector<uint16_t>& tokens) {
  std::string bytes;
  for (const uint16_t token : tokens) AppendLittleEndian(token, bytes);
  return bytes;
}

std::vector<int64_t> Tokens(const TokenDataset& data, const std::vector<uint8_t>& bytes) {
  std::vector<int64_t> tokens(bytes.size() / static_cast<size_t>(TokenBytes(data.type())));
  WidenTokens(data.type(), bytes, tokens.data());
  return tokens;
}

TEST(TokenDataset, ReadsItemsAsTheyAre) {
  const TemporaryFolder folder;
  folder.Write("train.bin", Shorts({5, 65535, 2, 2, 7, 2}));
  folder.Write("train.idx", Index(TokenType::kUInt16, {3, 1, 0, 2}));
  const TokenDataset data(folder.path("train"));
  ASSERT_EQ(data.size(), 4);
  EXPECT_EQ(data.tokens(), 6);
  EXPECT_EQ(data.kind(), RecordKind::kTokens);
  EXPECT_THAT(Tokens(data, data.Read(0)), ElementsAre(5, 65535, 2));
  EXPECT_THAT(Tokens(data, data.Read(1)), ElementsAre(2));
  EXPECT_THAT(Tokens(data, data.Read(2)), ElementsAre());
  EXPECT_THAT(Tokens(data, data.Read(3)), ElementsAre(7, 2));
  EXPECT_THAT(Tokens(data, data.ReadTokens(1, 4)), ElementsAre(65535, 2, 2, 7));
  EXPECT_EQ(data.Place(3), (RecordPlace{folder.path("train.bin"), 8}));
}

TEST(TokenDataset, RefusesFairseqsNumberedParts) {
  const TemporaryFolder folder;
  for (const char* name : {"train", "train1", "valid", "valid1"}) {
    folder.Write(std::string(name) + ".bin", Shorts({2}));
    folder.Write(std::string(name) + ".idx", Index(TokenType::kUInt16, {1}));
  }
  EXPECT_ERROR("train1.bin goes on where", TokenDataset{folder.path("train")});
  EXPECT_EQ(TokenDataset(folder.path("valid")).size(), 1);  // fairseq takes valid1 for another text
}

TEST(TokenDataset, KnowsEveryType) {
  const std::vector<uint8_t> bytes = {0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
  const auto first = [&](TokenType type) {
    std::vector<int64_t> tokens(8);
    WidenTokens(type, bytes, tokens.data());
    return tokens[0];
  };
  EXPECT_EQ(first(TokenType::kUInt8), 254);
  EXPECT_EQ(first(TokenType::kInt8), -2);
  EXPECT_EQ(first(TokenType::kInt16), -2);
  EXPECT_EQ(first(TokenType::kUInt16), 65534);
  EXPECT_EQ(first(TokenType::kInt32), -2);
  EXPECT_EQ(first(TokenType::kUInt32), 4294967294);
  EXPECT_EQ(first(TokenType::kInt64), -2);
  EXPECT_EQ(first(TokenType::kUInt64), -2);  // outside any dictionary as an unsigned number, too
  EXPECT_EQ(TokenTypeFor(65499), TokenType::kUInt16);
  EXPECT_EQ(TokenTypeFor(65500), TokenType::kUInt32);
}

// Files of 2.5 · 2^31 tokens, which are sparse and take no space on disk.
TEST(TokenDataset, HoldsMoreTokensThan32BitsCount) {
  const TemporaryFolder folder;
  constexpr int32_t kSize = 1 << 30;
  folder.Write("train.idx", Index(TokenType::kUInt16, {kSize, kSize, kSize, kSize, kSize, 3}));
  folder.Write("train.bin", "");
  constexpr int64_t kTokens = 5 * int64_t{kSize} + 3;
  std::error_code no_holes;
  std::filesystem::resize_file(folder.path("train.bin"), 2 * kTokens, no_holes);
  if (no_holes)
    GTEST_SKIP() << "this file system takes no sparse file of 10 GB: " << no_holes.message()
                 << "; TMPDIR on another one (ext4, xfs, tmpfs) makes it run";
  {
    std::fstream file(folder.path("train.bin"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2 * (kTokens - 3));
    file << Shorts({11, 12, 2});
  }
  const TokenDataset data(folder.path("train"));
  EXPECT_EQ(data.tokens(), kTokens);
  EXPECT_THAT(Tokens(data, data.Read(5)), ElementsAre(11, 12, 2));
  EXPECT_THAT(Tokens(data, data.ReadTokens(kTokens - 4, 3)), ElementsAre(0, 11, 12));
}

struct Damage {
  const char* name;
  std::string index, tokens, said;
};

class DamagedTokens : public testing::TestWithParam<Damage> {};

TEST_P(DamagedTokens, AreNamed) {
  const TemporaryFolder folder;
  folder.Write("train.idx", GetParam().index);
  folder.Write("train.bin", GetParam().tokens);
  const std::string message = MessageOf([&] { TokenDataset{folder.path("train")}; });
  EXPECT_THAT(message, HasSubstr(GetParam().said));
  EXPECT_THAT(message, HasSubstr(folder.path("train.")));
}

std::string With(std::string bytes, size_t at, std::string_view part) { return bytes.replace(at, part.size(), part); }

const std::string kGood = Index(TokenType::kUInt16, {2, 1});
const std::string kTokens = Shorts({5, 2, 2});

INSTANTIATE_TEST_SUITE_P(
    TokenDataset, DamagedTokens,
    testing::Values(Damage{"OldFormat", std::string("TNTIDX\0\0", 8) + kGood, kTokens, "older format"},
                    Damage{"NoIndex", "no such thing at all, but long enough", kTokens, "does not begin with MMIDIDX"},
                    Damage{"HeaderCut", kGood.substr(0, 25), kTokens, "does not begin with MMIDIDX"},
                    Damage{"Version", With(kGood, 9, "\2"), kTokens, "version 2"},
                    Damage{"Floats", With(kGood, 17, "\6"), kTokens, "floating-point"},
                    Damage{"Type", With(kGood, 17, "\13"), kTokens, "type code 11"},
                    Damage{"Items", With(kGood, 18, "\3"), kTokens, "says 3 items"},
                    Damage{"ManyItems", With(kGood, 18, "\xff\xff\xff\xff\xff\xff\xff\xff"), kTokens,
                           "items, but has 24 bytes"},
                    Damage{"NoItems", Index(TokenType::kUInt16, {}), "", "has no items"},
                    Damage{"IndexCut", kGood.substr(0, kGood.size() - 1), kTokens, "has 23 bytes for them"},
                    Damage{"NegativeSize", With(kGood, 26, "\xff\xff\xff\xff"), kTokens, "item 0 has the size -1"},
                    Damage{"HugeSize", With(kGood, 26, "\xff\xff\xff\x7f"), kTokens, "ends within item 0 of 2"},
                    Damage{"Place", With(kGood, 42, "\6"), kTokens, "item 1 is not stored right after"},
                    Damage{"TokensCut", kGood, kTokens.substr(0, 5), "shorter than its index says"},
                    Damage{"TokensLonger", kGood, kTokens + "x", "longer than its index says: 7 bytes instead of 6"}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(TokenDataset, SplitsAreFoundByTheirNames) {
  const TemporaryFolder folder;
  folder.Write("valid.bin", kTokens);
  EXPECT_FALSE(FindTokenFiles(folder.path().string(), "val"));
  EXPECT_ERROR("validation.bin and .idx", RequireTokenFiles(folder.path().string(), "val"));
  folder.Write("valid.idx", kGood);
  EXPECT_EQ(FindTokenFiles(folder.path().string(), "val"), folder.path("valid"));
  EXPECT_FALSE(FindTokenFiles(folder.path().string(), "train"));
}

}  // namespace
}  // namespace dtrain::data
