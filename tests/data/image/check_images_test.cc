#include "data/image/check_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/formats/image_folder.h"
#include "tests/data/image/encode.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(RequireGoodHeaders, EveryBadFileIsListedAtOnce) {
  const TemporaryFolder folder;
  auto jpeg = EncodeJpeg(TestPicture(64, 48));
  for (int i = 0; i < 7; ++i) folder.Write("a/good" + std::to_string(i) + ".jpg", jpeg);
  // A long comment pushes the header beyond the bytes that are read first.
  std::vector<uint8_t> large = {0xFF, 0xD8};
  for (int i = 0; i < 2; ++i) {
    large.insert(large.end(), {0xFF, 0xFE, 0xFF, 0xFF});
    large.insert(large.end(), 0xFFFD, 'x');
  }
  large.insert(large.end(), jpeg.begin() + 2, jpeg.end());
  folder.Write("a/large.jpg", large);
  folder.Write("a/text.jpg", "no image");
  folder.Write("b/empty.png", "");
  folder.Write("b/gif.jpg", "GIF89a and so on");
  const ImageFolder source(folder.path());
  std::vector<std::string> notes;
  const auto message = [&](double max_bad_records, bool strict = false) {
    return MessageOf([&] {
      RequireGoodHeaders(source, {.split = "train", .max_bad_records = max_bad_records, .strict = strict},
                         [&](const std::string& line) { notes.push_back(line); });
    });
  };
  EXPECT_THAT(message(0.1), AllOf(HasSubstr("train: 3 bad records of 11, and the budget is 2:"),
                                  HasSubstr("a/text.jpg: not an image"), HasSubstr("b/empty.png: the file is empty"),
                                  HasSubstr("b/gif.jpg: GIF"), Not(HasSubstr("large")), Not(HasSubstr("good"))));
  EXPECT_EQ(notes.size(), 3u);
  EXPECT_EQ(message(0.25), "");
  EXPECT_THAT(message(0.25, true), HasSubstr("the budget is 0"));
}

TEST(SayTurned, CountsTheFilesThatAreNotStoredUpright) {
  std::vector<uint8_t> turned = EncodeJpeg(TestPicture(64, 48));
  const std::vector<uint8_t> upright = turned,
                             exif = {0xFF, 0xE1, 0,    34, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0,
                                     1,    0,    0x12, 1,  3,   0,   1,   0,   0, 0, 6,   0,   0,  0, 0, 0, 0, 0};
  turned.insert(turned.begin() + 2, exif.begin(), exif.end());
  const TemporaryFolder folder;
  folder.Write("a/1.jpg", turned);
  folder.Write("a/2.jpg", upright);
  folder.Write("b/3.jpg", turned);
  folder.Write("b/4.jpg", "no image");
  EXPECT_THAT(SayTurned(ImageFolder(folder.path()), "train"), HasSubstr("train: 2 of 4 images have"));
  for (int i = 4; i <= 1000; ++i) folder.Write("b/5" + std::to_string(i) + ".jpg", i % 2 == 0 ? turned : upright);
  EXPECT_THAT(SayTurned(ImageFolder(folder.path()), "train"), HasSubstr(" of 1000 images that were looked at have"));
  folder.Write("c/a/1.jpg", upright);
  EXPECT_EQ(SayTurned(ImageFolder(folder.path("c")), "train"), "");
}

}  // namespace
}  // namespace dtrain::data
