#include "data/formats/record_index.h"

#include <gmock/gmock.h>

#include <ctime>
#include <filesystem>
#include <limits>

#include "data/formats/crc32c.h"
#include "data/formats/little_endian.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

RecordIndex Example() {
  return {.format = "tfrecord",
          .fingerprint = "abc",
          .class_names = {"tench", "\xFF\xC3\xA9 not UTF-8"},
          .files = {{"train-0", 100, 1'700'000'000'123'456'789}, {"train-\xE9", 50, 2}},
          .records = {{0, 40, 0, 1}, {40, 60, 0, -1}, {0, 50, 1, 2}},
          .names = {}};
}

RecordIndex FolderExample() {
  RecordIndex folder = Example();
  folder.format = "imagefolder";
  folder.names = std::string("a.jpg\0b.jpg\0", 12);
  folder.records = {{0, 1000, 0, 0}, {6, 0, 1, 1}};
  return folder;
}

RecordIndex SeveralExample() {
  RecordIndex several = Example();
  several.format = IndexFormat("tfrecord", LabelKind::kSeveral);
  several.values = {3, 0, 16'777'216};  // one, none of the damaged record, two
  return several;
}

TEST(RecordIndex, IsReadAsItWasWritten) {
  EXPECT_EQ(ParseIndex(SerializeIndex(Example())), Example());
  EXPECT_EQ(ParseIndex(SerializeIndex(SeveralExample())), SeveralExample());
  EXPECT_EQ(ParseIndex(SerializeIndex(FolderExample())), FolderExample());
}

TEST(RecordIndex, AnyDamageIsNoticed) {
  const std::string bytes = SerializeIndex(Example());
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(ParseIndex(std::string_view(bytes).substr(0, i))) << "cut at " << i;
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 4);
    EXPECT_FALSE(ParseIndex(flipped)) << "flipped at " << i;
  }
}

// An index lies beside data that others made.
TEST(RecordIndex, NestedTooDeeplyIsDamage) {
  RecordIndex index = Example();
  index.cut = {"name"};
  std::string bytes = SerializeIndex(index);
  bytes.resize(bytes.size() - sizeof(uint32_t));
  constexpr size_t kDepth = 1'000'000;
  const std::string nested = std::string(kDepth, '[') + std::string(kDepth, ']'), name = "\"name\"";
  bytes.replace(bytes.find(name), name.size(), nested);
  const auto length = LoadLittleEndian<uint64_t>(reinterpret_cast<const uint8_t*>(bytes.data()) + 8);
  std::string head;
  AppendLittleEndian<uint64_t>(length + nested.size() - name.size(), head);
  bytes.replace(8, head.size(), head);
  AppendLittleEndian(Crc32c(bytes.data(), bytes.size()), bytes);
  EXPECT_FALSE(ParseIndex(bytes));
}

TEST(RecordIndex, ValuesMustFitTheirRecordsAndKind) {
  RecordIndex index = SeveralExample();
  index.values.push_back(1);
  EXPECT_FALSE(ParseIndex(SerializeIndex(index)));
  index = SeveralExample();
  index.format = "tfrecord";
  EXPECT_FALSE(ParseIndex(SerializeIndex(index)));
  for (const float value : {-1.0F, 0.5F, 16'777'218.0F, std::numeric_limits<float>::quiet_NaN()}) {
    index = SeveralExample();
    index.values[1] = value;
    EXPECT_FALSE(ParseIndex(SerializeIndex(index))) << value;
    index.format = IndexFormat("tfrecord", LabelKind::kNumbers);
    EXPECT_EQ(ParseIndex(SerializeIndex(index)).has_value(), value == value) << value;
  }
}

TEST(RecordIndex, EntriesMustPointIntoTheirFiles) {
  for (const IndexEntry& entry : {IndexEntry{0, 1, 2, 0}, IndexEntry{101, 0, 0, 0}, IndexEntry{50, 51, 0, 0},
                                  IndexEntry{UINT64_MAX, 2, 0, 0}, IndexEntry{0, 1, 0, -2}}) {
    RecordIndex index = Example();
    index.records.push_back(entry);
    EXPECT_FALSE(ParseIndex(SerializeIndex(index)));
  }
}

TEST(RecordIndex, EntriesOfAFolderMustPointIntoItsNamesAndClasses) {
  for (const IndexEntry& entry : {IndexEntry{12, 0, 0, 0}, IndexEntry{0, 0, 2, 0}, IndexEntry{0, 0, 0, 2}}) {
    RecordIndex index = FolderExample();
    index.records.push_back(entry);
    EXPECT_FALSE(ParseIndex(SerializeIndex(index)));
  }
  RecordIndex nameless = FolderExample();
  nameless.names.clear();
  nameless.records = {{0, 0, 0, 0}};
  EXPECT_FALSE(ParseIndex(SerializeIndex(nameless)));
  nameless.names = "unterminated";
  EXPECT_FALSE(ParseIndex(SerializeIndex(nameless)));
}

TEST(RecordIndex, IsKeptBesideTheDataOrInAFolderOfIndexes) {
  const TemporaryFolder folder;
  EXPECT_EQ(IndexPath("/data/a", "", "train", "recordio"), "/data/a/train.recordio.index");
  const std::string path = IndexPath("/data/a", folder.path("new"), "train", "recordio");
  EXPECT_NE(path, IndexPath("/data/b", folder.path("new"), "train", "recordio"));
  EXPECT_EQ(LoadIndex(path), std::nullopt);
  EXPECT_EQ(SaveIndex(path, Example()), "");
  EXPECT_EQ(LoadIndex(path), Example());
  EXPECT_THAT(SaveIndex("/proc/no/index", Example()), testing::HasSubstr("cannot write /proc/no/index"));
}

// An index of ImageNet's size, with names as long as ImageNet's. Measures processor time, because the machine may be
// busy.
TEST(RecordIndex, MillionsLoadInASecond) {
  RecordIndex index = FolderExample();
  index.class_names.resize(1000, "n01440764");
  for (int i = 0; i < 1'281'167; ++i) {
    index.records.push_back({index.names.size(), 110'000, 0, i / 1300});
    index.names += "n01440764_" + std::to_string(i) + ".JPEG" + '\0';
  }
  const TemporaryFolder folder;
  ASSERT_EQ(SaveIndex(folder.path("index"), index), "");
  const std::clock_t begin = std::clock();
  const auto loaded = LoadIndex(folder.path("index"));
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  RecordProperty("seconds", std::to_string(seconds));
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->records.size(), index.records.size());
  EXPECT_LT(seconds, 1);
}

}  // namespace
}  // namespace dtrain::data
