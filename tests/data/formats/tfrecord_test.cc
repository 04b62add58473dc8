#include "data/formats/tfrecord.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/formats/crc32c.h"
#include "data/formats/little_endian.h"
#include "tests/data/formats/record_bytes.h"
#include "tests/fault_record.h"

namespace dtrain::data {
namespace {

using testing::HasSubstr;

std::string Record(const std::string& image, int64_t label) {
  return FrameTfRecord(MakeImageExample({.bytes = AsBytes(image), .label = label}, 0));
}

const std::string kThree = Record("first", 1) + Record("second", 2) + Record("third", 3);

TEST(TfRecord, FrameComesOff) {
  const std::string frame = FrameTfRecord("abc");
  EXPECT_EQ(frame.size(), 3 + kTfRecordFrameBytes);
  EXPECT_EQ(UnframeTfRecord(frame + "more"), "abc");
  EXPECT_EQ(UnframeTfRecord(frame.substr(0, frame.size() - 1)), std::nullopt);
  EXPECT_EQ(UnframeTfRecord(frame.substr(0, 5)), std::nullopt);
  EXPECT_EQ(UnframeTfRecord(""), std::nullopt);
  std::string changed = frame;
  changed[13] ^= 1;
  EXPECT_EQ(UnframeTfRecord(changed), std::nullopt);
}

TEST(TfRecord, EveryDamageIsNoticed) {
  const TfRecordFormat format;
  const std::string one = Record("image", 1);
  for (size_t i = 0; i < one.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = one;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      EXPECT_THROW(format.Image(ToVector(flipped)), DamagedRecord) << "byte " << i << " bit " << bit;
    }
    EXPECT_THROW(format.Image(ToVector(one.substr(0, i))), DamagedRecord) << "cut at " << i;
  }
  RecordFault(19, "any bit of a TFRecord is flipped, or it is cut at any byte", "noticed",
              static_cast<int64_t>(9 * one.size()));
}

TEST(TfRecord, AHugeLengthIsRefusedThoughItsCrcFits) {
  for (const uint64_t length : {kMostRecordBytes + 1, UINT64_MAX, UINT64_MAX - 15, uint64_t{1} << 63}) {
    std::string file;
    AppendLittleEndian(length, file);
    AppendLittleEndian(MaskedCrc32c(file.data(), 8), file);
    file += std::string(100, 'x');
    EXPECT_THROW(TfRecordFormat().Scan(MemoryBytes(AsBytes(file)), 0), DamagedRecord);
  }
}

TEST(TfRecord, ABadLengthDoesNotHideTheRecordsBehindIt) {
  std::string file = kThree;
  file[0] = 'x';
  const uint64_t second = Record("first", 1).size();
  EXPECT_EQ(TfRecordFormat().FindRecord(MemoryBytes(AsBytes(file)), 1), second);
  EXPECT_EQ(TfRecordFormat().FindRecord(MemoryBytes(AsBytes(file)), file.size() - 3), file.size());
}

TEST(TfRecord, NamesWhatAnotherSchemaHas) {
  const std::string file =
      FrameTfRecord(std::string("\x0A\x07\x0A\x05\x0A\x03"
                                "pix",
                                9));
  const std::string message = MessageAndHint([&] { TfRecordFormat().Scan(MemoryBytes(AsBytes(file)), 0); });
  EXPECT_THAT(message, HasSubstr("has no image/encoded; it has: pix"));
}

TEST(TfRecord, HostileBytesDoNoHarm) { EXPECT_GT(DamageEverywhere(TfRecordFormat(), kThree), 0); }

}  // namespace
}  // namespace dtrain::data
