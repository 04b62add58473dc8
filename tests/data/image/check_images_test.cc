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

}  // namespace
}  // namespace dtrain::data
