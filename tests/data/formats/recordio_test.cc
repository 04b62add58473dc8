#include <gmock/gmock.h>

#include "data/formats/little_endian.h"
#include "tests/data/formats/record_bytes.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;

const RecordFormat& kRecordIo = *FindRecordFormat("recordio");

const std::string kMagic("\x0A\x23\xD7\xCE", 4);

std::string Record(const std::string& image, int64_t label) {
  return kRecordIo.Frame({.bytes = AsBytes(image), .label = label});
}

// Builds a record by hand: frame, IRHeader, labels, image.
std::string RawRecord(uint32_t flag, float label, const std::vector<float>& labels, const std::string& image) {
  std::string data;
  AppendLittleEndian(flag, data);
  AppendLittleEndian(label, data);
  AppendLittleEndian<uint64_t>(7, data);
  AppendLittleEndian<uint64_t>(0, data);
  for (const float value : labels) AppendLittleEndian(value, data);
  data += image;
  std::string record = kMagic;
  AppendLittleEndian(static_cast<uint32_t>(data.size()), record);
  record += data;
  return record.append((4 - record.size() % 4) % 4, '\0');
}

TEST(RecordIo, TheMagicInsideDataSplitsARecord) {
  struct Case {
    std::string image;
    size_t parts;
  };
  for (const Case& c : {Case{kMagic, 2}, Case{kMagic + kMagic, 3}, Case{"1234" + kMagic + "5678" + kMagic, 3},
                        Case{"12" + kMagic, 1}, Case{kMagic + "1", 2}}) {
    const std::string record = Record(c.image, 2);
    const Records records = ReadAll(kRecordIo, record + Record("next", 3));
    EXPECT_THAT(records.images, ElementsAre(c.image, "next"));
    EXPECT_THAT(records.labels, ElementsAre(2, 3));
    size_t headers = 0;
    for (size_t i = 0; i < record.size(); i += 4) headers += record.compare(i, 4, kMagic) == 0 ? 1 : 0;
    EXPECT_EQ(headers, c.parts) << "a magic at a multiple of 4 is a header";
  }
}

TEST(RecordIo, DamageIsNamed) {
  struct Case {
    std::string file;
    const char* reason;
  };
  const std::string split = Record("1234" + kMagic + "5678", 1);
  std::string last_alone = split.substr(split.find(kMagic, 4));
  std::string huge = Record("x", 1);
  huge[7] = 0x1F;
  for (const Case& c :
       {Case{"text, and no record file at all", "magic number is missing"},
        Case{Record("image", 1).substr(0, 7), "frame is cut off"}, Case{Record("image", 1).substr(0, 20), "truncated"},
        Case{last_alone, "first part is missing"}, Case{split.substr(0, split.find(kMagic, 4)), "frame is cut off"},
        Case{huge, "a record of"}, Case{RawRecord(0, -1, {}, ""), "is not a class"},
        Case{RawRecord(0, 0.5, {}, ""), "is not a class"}, Case{RawRecord(100, 0, {}, "x"), "with 100 labels"},
        Case{kMagic + std::string(4, '\0'), "has no header"}}) {
    EXPECT_ERROR(c.reason, ReadAll(kRecordIo, c.file));
  }
}

TEST(RecordIoIndex, HelpsOnlyWhereItFits) {
  EXPECT_THAT(kRecordIo.KnownRecords("1\t40\n0\t0\n", 100),
              ElementsAre(IndexEntry{0, 40, 0, -1}, IndexEntry{40, 60, 0, -1}));
  EXPECT_TRUE(kRecordIo.KnownRecords("1\t40\n0\t0\n", 40).empty()) << "older than its file";
  EXPECT_TRUE(kRecordIo.KnownRecords("no index", 100).empty());
}

}  // namespace
}  // namespace dtrain::data
