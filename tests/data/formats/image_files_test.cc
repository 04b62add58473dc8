#include "data/formats/image_folder.h"

#include <gmock/gmock.h>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

using testing::HasSubstr;

TEST(ImageFiles, AreThoseOfFoldersAndThoseNamed) {
  const TemporaryFolder folder;
  for (const char* name : {"b.jpg", "a/2.PNG", "a/1.jpg", "a/c/3.webp", "a/notes.txt", ".hidden/4.jpg", "a/.5.jpg"}) {
    folder.Write(name, name);
  }
  const std::string named = folder.Write("elsewhere/any.name", "x");
  const ImageFiles files({folder.path("a"), folder.path("b.jpg"), named});
  ASSERT_EQ(files.size(), 5);
  EXPECT_EQ(files.Location(0), folder.path("a/1.jpg"));
  EXPECT_EQ(files.Location(1), folder.path("a/2.PNG"));
  EXPECT_EQ(files.Location(2), folder.path("a/c/3.webp"));
  EXPECT_EQ(files.Location(4), named);
  EXPECT_EQ(files.Read(3).size(), 5);
  EXPECT_EQ(files.Label(0), -1);
  EXPECT_THAT(ToText(files.ignored()), HasSubstr("1 *.txt"));
}

TEST(ImageFiles, WhatIsMissingIsSaid) {
  const TemporaryFolder folder;
  folder.Write("none/a.txt", "");
  folder.Write("some/a.gif", "");
  EXPECT_THAT(MessageOf([&] { ImageFiles({folder.path("missing")}); }),
              HasSubstr("cannot read " + folder.path("missing")));
  EXPECT_THAT(MessageOf([&] { ImageFiles({folder.path("none")}); }), HasSubstr("1 *.txt"));
  EXPECT_EQ(ImageFiles({folder.path("some")}).size(), 1);  // reading it tells why it cannot be read
  EXPECT_THAT(MessageOf([&] { ImageFiles({}); }), HasSubstr("there is no image"));
}

}  // namespace
}  // namespace dtrain::data
