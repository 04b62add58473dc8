#include "data/formats/image_folder.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ImageFolder, OrderIsTorchvisions) {
  const TemporaryFolder folder;
  // Folders are sorted by their whole path: "b/x-y" before "b/x/w", because '-' < '/'.
  for (const char* name :
       {"b/2.JPG", "b/10.png", "b/x/w/1.jpeg", "b/x-y/1.webp", "a/z.tif", "a/notes.txt", "a/.jpg.bak"}) {
    folder.Write(name, name);
  }
  const ImageFolder source(folder.path());
  EXPECT_THAT(source.class_names(), ElementsAre("a", "b"));
  EXPECT_EQ(source.num_classes(), 2);
  std::vector<std::string> names;
  for (int64_t i = 0; i < source.size(); ++i) {
    names.push_back(std::filesystem::relative(source.Location(i), folder.path()).string());
    EXPECT_EQ(source.Label(i), names.back()[0] - 'a');
    const auto bytes = source.Read(i);
    EXPECT_EQ(std::string(bytes.begin(), bytes.end()), names.back());
  }
  EXPECT_THAT(names, ElementsAre("a/z.tif", "b/10.png", "b/2.JPG", "b/x-y/1.webp", "b/x/w/1.jpeg"));
}

// Files that notebooks, Macs, Windows and file servers leave beside photos are neither classes nor images.
TEST(ImageFolder, OtherProgramsFilesAreSkippedAndCounted) {
  const TemporaryFolder folder;
  for (const char* name : {"a/1.jpg", "a/._1.jpg", "a/.DS_Store", "a/Thumbs.db", "a/2.GIF", "a/3.heic", "a/notes.txt",
                           ".ipynb_checkpoints/1.jpg", "__MACOSX/a/1.jpg", "a/.git/1.jpg", "a/sub/2.jpg", "LICENSE",
                           "..imagefolder.index"}) {
    folder.Write(name, "x");
  }
  const ImageFolder source(folder.path());
  EXPECT_THAT(source.class_names(), ElementsAre("a"));
  EXPECT_EQ(source.size(), 2);
  EXPECT_EQ(ToText(source.ignored()),
            "ignored: 1 *.gif, 1 *.heic (images of kinds that are not read: convert them, as with magick mogrify "
            "-format jpg FILES), 1 *.txt, "
            "1 Thumbs.db, 1 __MACOSX, 4 names with a leading dot, 1 other files");
  const auto kept = ParseIndex(SerializeIndex(ListImageFolder(folder.path())));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->ignored, source.ignored());
  folder.Write("b/split/1.gif", "x");
  EXPECT_ERROR("no image in the class folders of " + folder.path("b") + "; ignored: 1 *.gif",
               ImageFolder(folder.path("b")));
}

TEST(IgnoredFiles, KindsDoNotGrowWithoutEnd) {
  IgnoredFiles ignored;
  EXPECT_EQ(ToText(ignored), "");
  for (int i = 0; i < 1000; ++i) CountIgnored("x." + std::to_string(i), ignored);
  CountIgnored("x.an extension with spaces", ignored);
  EXPECT_LE(ignored.size(), 41U);
  EXPECT_GT(ignored["other files"], 900);
}

TEST(ImageFolder, LinksAreFollowedAndLoopsAreNot) {
  const TemporaryFolder folder;
  folder.Write("split/a/1.jpg", "x");
  folder.Write("elsewhere/2.jpg", "y");
  std::filesystem::create_directory_symlink(folder.path("elsewhere"), folder.path("split/a/linked"));
  std::filesystem::create_directory_symlink(folder.path("split/a"), folder.path("split/a/loop"));
  std::filesystem::create_directory_symlink(folder.path("elsewhere"), folder.path("split/b"));
  std::filesystem::create_symlink("nowhere", folder.path("split/a/broken.jpg"));
  const ImageFolder source(folder.path("split"));
  EXPECT_EQ(source.size(), 4);  // a/1.jpg, a/broken.jpg, a/linked/2.jpg, b/2.jpg
  EXPECT_ERROR("No such file", source.Read(1));
}

TEST(ImageFolder, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_ERROR("No such file", ImageFolder(folder.path("no")));
  EXPECT_ERROR("no class folder", ImageFolder(folder.path()));
  folder.Write("metadata.jsonl", "{}");  // as in Hugging Face's folders of images
  EXPECT_ERROR("--labels=" + folder.path("metadata.jsonl"), ImageFolder(folder.path()));
  folder.Write("split/empty/readme.txt", "x");
  EXPECT_ERROR("no image in the class folders", ImageFolder(folder.path("split")));
  folder.Write("split/a/1.jpg", "x");
  EXPECT_EQ(ImageFolder(folder.path("split")).num_classes(), 2);  // a class without images is one
  EXPECT_ERROR("DATA_DIR/train/CLASS/*.jpg", RequireSplit(folder.path(), "train"));
  EXPECT_ERROR("/valid", RequireSplit(folder.path(), "val"));
  folder.Write("data/train-00000-of-00001.parquet", "PAR1");
  EXPECT_ERROR("holds data, ", RequireSplit(folder.path(), "train"));
  EXPECT_ERROR(".parquet", RequireSplit(folder.path(), "train"));
}

// Hugging Face's layout: the one folder is no class.
TEST(ImageFolder, OneFolderBesideATableOfLabels) {
  const TemporaryFolder folder;
  for (const char* name : {"images/1.jpg", "metadata.csv"}) folder.Write(name, "x");
  EXPECT_THAT(HintOf([&] { ImageFolder(folder.path()); }), HasSubstr("--labels=" + folder.path("metadata.csv")));
  folder.Write("other/1.jpg", "x");
  EXPECT_NO_THROW(ImageFolder(folder.path()));
}

TEST(ImageFolder, DeletedAndShortenedFilesAreErrorsOrShort) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("s/a/1.jpg", "12345");
  const ImageFolder source(folder.path("s"));
  std::filesystem::resize_file(path, 2);
  EXPECT_EQ(source.Read(0).size(), 2U);  // the decoder then reports the truncation
  std::filesystem::remove(path);
  EXPECT_THROW(source.Read(0), DataError);
}

// A sparse file takes no space on disk, but reading it would take all memory.
TEST(ImageFolder, AFileThatIsTooLargeForAnImageIsOneBadRecord) {
  const TemporaryFolder folder;
  std::filesystem::resize_file(folder.Write("s/a/1.jpg", ""), uintmax_t{20} << 30);
  folder.Write("s/a/2.jpg", "x");
  const ImageFolder source(folder.path("s"));
  EXPECT_ERROR("has 21474836480 bytes, more than the limit of 268435456", source.Read(0));
  EXPECT_EQ(source.Read(1).size(), 1U);
}

// As with --split=., whose index lies among the classes.
TEST(ImageFolder, AnIndexInItsOwnFolderStaysFresh) {
  const TemporaryFolder folder;
  folder.Write("a/1.jpg", "x");
  const KeptIndex kept{.path = folder.path("..imagefolder.index")};
  RecordIndex index = IndexImageFolder(folder.path(), kept);
  index.fingerprint = "that of the file";
  ASSERT_EQ(SaveIndex(kept.path, index), "");
  EXPECT_EQ(IndexImageFolder(folder.path(), kept).fingerprint, "that of the file");
  folder.Write("b/1.jpg", "x");
  EXPECT_EQ(IndexImageFolder(folder.path(), kept).records.size(), 2U);
}

TEST(ImageFolder, FingerprintIsOfNamesAndSizes) {
  const TemporaryFolder one, two;
  one.Write("a/1.jpg", "xx");
  two.Write("a/1.jpg", "yy");
  EXPECT_EQ(ImageFolder(one.path()).fingerprint(), ImageFolder(two.path()).fingerprint());
  two.Write("a/1.jpg", "yyy");
  EXPECT_NE(ImageFolder(one.path()).fingerprint(), ImageFolder(two.path()).fingerprint());
  two.Write("a/1.jpg", "xx");
  two.Write("a/2.jpg", "");
  EXPECT_NE(ImageFolder(one.path()).fingerprint(), ImageFolder(two.path()).fingerprint());
}

TEST(ImageFolder, LabelsAreThoseOfTheClassesThatAreKnown) {
  const TemporaryFolder folder;
  for (const char* name : {"c1/1.jpg", "c3/2.jpg"}) folder.Write(name, "x");
  const RecordIndex index = ListImageFolder(folder.path());
  const std::vector<std::string> names = {"c0", "c1", "c2", "c3"};
  const ImageFolder source(folder.path(), index, {.names = names, .count = 4});
  EXPECT_EQ(source.Label(0), 1);
  EXPECT_EQ(source.Label(1), 3);
  EXPECT_EQ(source.classes(), (Classes{.names = names, .count = 4}));
  EXPECT_ERROR("not among the training split's 2 classes: c3 | ",
               ImageFolder(folder.path(), index, {.names = {"c0", "c1"}, .count = 2}));
  EXPECT_ERROR("has 2 class folders, but there are 4 classes", ImageFolder(folder.path(), index, {.count = 4}));
  EXPECT_EQ(ImageFolder(folder.path(), index, {.count = 2}).Label(1), 1);
}

TEST(FindSplit, KnowsTheNamesOfValidation) {
  const TemporaryFolder folder;
  EXPECT_EQ(FindSplit(folder.path(), "val"), std::nullopt);
  std::filesystem::create_directory(folder.path("valid"));
  EXPECT_EQ(FindSplit(folder.path(), "val"), folder.path("valid"));
  std::filesystem::create_directory(folder.path("val"));
  EXPECT_EQ(FindSplit(folder.path(), "val"), folder.path("val"));
  EXPECT_EQ(FindSplit(folder.path(), "train"), std::nullopt);
}

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

}  // namespace
}  // namespace dtrain::data
