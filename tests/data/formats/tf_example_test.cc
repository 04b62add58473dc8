#include "data/formats/tfrecord.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/formats/record_bytes.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
    EXPECT_THAT(MessageAndHint([&] { ParseImageExample(AsBytes(bytes)); }), HasSubstr("not a tf.Example"));
  }
}

}  // namespace
}  // namespace dtrain::data
