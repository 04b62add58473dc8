#include "data/formats/tfrecord.h"

#include <gmock/gmock.h>

#include "data/formats/crc32c.h"
#include "data/formats/little_endian.h"
#include "data/formats/packed_records.h"
#include "data/formats/protobuf.h"
#include "tests/data/formats/record_bytes.h"
#include "tests/fault_record.h"

#include <string>
#include <vector>

namespace dtrain::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const RecordFormat& kTfRecord = *FindRecordFormat("tfrecord");

std::string ImageRecord(const std::string& image, int64_t label) {
  return FrameTfRecord(MakeImageExample({.bytes = AsBytes(image), .label = label}, 0));
}

const std::string kThree = ImageRecord("first", 1) + ImageRecord("second", 2) + ImageRecord("third", 3);

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
  const std::string one = ImageRecord("image", 1);
  for (size_t i = 0; i < one.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = one;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      EXPECT_THROW(kTfRecord.Image(ToVector(flipped)), DamagedRecord) << "byte " << i << " bit " << bit;
    }
    EXPECT_THROW(kTfRecord.Image(ToVector(one.substr(0, i))), DamagedRecord) << "cut at " << i;
  }
  RecordFault(19, "any bit of a TFRecord is flipped, or it is cut at any byte", "noticed",
              static_cast<int64_t>(9 * one.size()));
}

TEST(TfRecord, SaysWhatALabelIs) {
  const auto scan = [](const std::string& file) { ScanRecords(kTfRecord, MemoryBytes(AsBytes(file)), "file", {}); };
  EXPECT_ERROR(
      "label 1.000000 is not a class",
      scan(FrameTfRecord(MakeImageExample({.bytes = AsBytes("x"), .kind = LabelKind::kNumbers, .values = {1}}, 0))));
  EXPECT_ERROR("label 4611686018427387904.000000 is not a class", scan(ImageRecord("x", int64_t{1} << 62)));
  EXPECT_ERROR("the label has no value",
               scan(FrameTfRecord(MakeImageExample({.bytes = AsBytes("x"), .kind = LabelKind::kSeveral}, 0))));
  const ProtobufWriter text = ProtobufWriter().Message(1, ProtobufWriter().Bytes(1, "cat"));
  const ProtobufWriter feature = ProtobufWriter().Bytes(1, "image/class/label").Message(2, text);
  EXPECT_ERROR("image/class/label of the tf.Example is text",
               scan(FrameTfRecord(ProtobufWriter().Message(1, ProtobufWriter().Message(1, feature)).bytes())));
  EXPECT_ERROR("as with gunzip", scan("\x1f\x8b" + std::string(100, 'x')));
}

TEST(TfRecord, AHugeLengthIsRefusedThoughItsCrcFits) {
  for (const uint64_t length : {kMostRecordBytes + 1, UINT64_MAX, UINT64_MAX - 15, uint64_t{1} << 63}) {
    std::string file;
    AppendLittleEndian(length, file);
    AppendLittleEndian(MaskedCrc32c(file.data(), 8), file);
    file += std::string(100, 'x');
    EXPECT_THROW(kTfRecord.Scan(MemoryBytes(AsBytes(file)), 0), DamagedRecord);
  }
}

TEST(TfRecord, ABadLengthDoesNotHideTheRecordsBehindIt) {
  std::string file = kThree;
  file[0] = 'x';
  const uint64_t second = ImageRecord("first", 1).size();
  EXPECT_EQ(kTfRecord.FindRecord(MemoryBytes(AsBytes(file)), 1), second);
  EXPECT_EQ(kTfRecord.FindRecord(MemoryBytes(AsBytes(file)), file.size() - 3), file.size());
  // Nor one of another schema, which a scan then names.
  file = file.substr(0, second) + FrameTfRecord(std::string("\x0A\x00", 2)) + file.substr(second);
  EXPECT_EQ(kTfRecord.FindRecord(MemoryBytes(AsBytes(file)), 1), second);
}

TEST(TfRecord, NamesWhatAnotherSchemaHas) {
  const std::string file =
      FrameTfRecord(std::string("\x0A\x07\x0A\x05\x0A\x03"
                                "pix",
                                9));
  const std::string message = MessageAndHint([&] { kTfRecord.Scan(MemoryBytes(AsBytes(file)), 0); });
  EXPECT_THAT(message, HasSubstr("has no image/encoded; it has: pix"));
}

// Builds examples by hand, after https://protobuf.dev/programming-guides/encoding: 0x0A is field 1 with a length, 0x12
// is field 2.
std::string Sized(char key, const std::string& content) {
  return std::string(1, key) + static_cast<char>(content.size()) + content;
}
std::string Feature(const std::string& name, const std::string& value) {
  return Sized(0x0A, Sized(0x0A, name) + Sized(0x12, value));
}
std::string Example(const std::string& features) { return Sized(0x0A, features); }

const std::string kImage = Feature("image/encoded", Sized(0x0A, Sized(0x0A, "jpeg")));

std::string TextOf(const std::optional<std::span<const uint8_t>>& bytes) {
  return bytes ? std::string(bytes->begin(), bytes->end()) : "none";
}

TEST(ImageExample, LabelsMayBePackedOrNot) {
  struct Case {
    std::string list;  // an Int64List
    std::optional<int64_t> label;
  };
  for (const Case& c : {Case{Sized(0x0A, "\x07"), 7},             // packed
                        Case{std::string("\x08\x07", 2), 7},      // not packed
                        Case{Sized(0x0A, "\xE8\x07\x05"), 1000},  // the first of two
                        Case{std::string("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 11), -1},
                        Case{"", std::nullopt}, Case{Sized(0x0A, ""), std::nullopt}}) {
    const std::string bytes = Example(kImage + Feature("image/class/label", Sized(0x1A, c.list)));
    const ImageExample example = ParseImageExample(AsBytes(bytes));
    EXPECT_EQ(example.label, c.label);
    EXPECT_EQ(TextOf(example.image), "jpeg");
  }
}

TEST(ImageExample, OtherFeaturesAndUnknownFieldsArePassedOver) {
  const std::string floats = Feature("floats", Sized(0x12, Sized(0x0A, "\1\2\3\4")));
  const std::string unknown = std::string("\x1D\1\2\3\4", 5) + std::string("\x21\1\2\3\4\5\6\7\x08", 9);
  const std::string bytes = Example(floats + kImage) + unknown;
  const ImageExample example = ParseImageExample(AsBytes(bytes));
  EXPECT_EQ(TextOf(example.image), "jpeg");
  EXPECT_EQ(example.label, std::nullopt);
  EXPECT_THAT(example.features, ElementsAre("floats", "image/encoded"));
}

TEST(ImageExample, RefusesWhatIsNone) {
  for (const std::string& bytes :
       {std::string("text, nothing else"), std::string("\x0A"),
        std::string("\x0A\x7F"
                    "short"),
        std::string("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"),  // 2^64 − 1 bytes
        std::string("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"), std::string("\x0B")}) {
    EXPECT_ERROR("not a tf.Example", ParseImageExample(AsBytes(bytes)));
  }
}

TEST(Crc32c, PiecesAddUp) {
  EXPECT_EQ(Crc32c("123456789", 9), 0xE3069283U);
  const std::string text = "the quick brown fox jumps over the lazy dog";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const uint32_t first = Crc32c(text.data(), cut);
    EXPECT_EQ(Crc32c(text.data() + cut, text.size() - cut, first), Crc32c(text.data(), text.size()));
  }
}

}  // namespace
}  // namespace dtrain::data
