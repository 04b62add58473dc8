#include "data/formats/open_source.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>

#include "data/formats/image_folder.h"
#include "data/formats/record_format.h"
#include "tests/data/formats/record_bytes.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Record(int64_t label) {
  return FindRecordFormat("webdataset")->Frame({.bytes = AsBytes("x"), .label = label, .index = label});
}

TEST(DetectFormat, LooksAtTheFirstSplitThatIsThere) {
  for (const auto& [file, format] : {std::pair{"train/a/1.jpg", "imagefolder"},
                                     {"train-00000-of-00001", "tfrecord"},
                                     {"validation-00000-of-00001", "tfrecord"},
                                     {"train_480_q90.tar", "webdataset"},
                                     {"val-000000.tar", "webdataset"},
                                     {"train/000.tar", "webdataset"},
                                     {"train.safetensors", "safetensors"},
                                     {"train.tsv", "sentences"},
                                     {"dev_matched.csv", "sentences"},
                                     {"train/pos/1.txt", "sentences"},
                                     {"train/1.txt", "imagefolder"},
                                     {"train/n1/images/1.JPEG", "imagefolder"},
                                     {"nothing", "imagefolder"}}) {
    const TemporaryFolder folder;
    folder.Write(file, "x");
    if (std::string_view(file).ends_with(".JPEG")) folder.Write("train/n1/n1_boxes.txt", "x");  // Tiny ImageNet
    EXPECT_EQ(DetectFormat(folder.path(), {"train", "val"}), format) << file;
  }
}

TEST(OpenSource, SaysHowToNameRecordsOfOtherSplits) {
  for (const char* file : {"00000.tar", "imagenet1k-train-0000.tar", "imagenet2012-train.tfrecord-00000-of-01024",
                           "train-0000.tar.gz", "train-0000.tgz", "train-0000.tar.zst"}) {
    const TemporaryFolder folder;
    folder.Write(file, "x");
    const std::string format = DetectFormat(folder.path(), {"train"});
    EXPECT_THAT(MessageAndHint([&] { OpenSource({.data_dir = folder.path(), .format = format}, "train"); }),
                AllOf(HasSubstr(file), HasSubstr("--train_split"), HasSubstr("gunzip")));
  }
}

TEST(DetectFormat, LeavesOutNoCompressedShardsBesideOthers) {
  for (const auto& [file, compressed] : {std::pair("train-000000.tar", "train-000001.tar.gz"),
                                         {"train/0.tar", "train/1.tgz"},
                                         {"validation.tfrecord", "validation2.tfrecord.zst"},
                                         {"train-00000-of-00002", "train-00001-of-00002.gz"},
                                         {"train-0.rec", "train-1.rec.xz"}}) {
    const TemporaryFolder folder;
    for (const char* name : {file, compressed, "train.md.gz", "other-0.tar.gz"}) folder.Write(name, "x");
    EXPECT_THAT(MessageAndHint([&] {
                  DetectFormat(folder.path(), {"train", "val"});
                }),
                AllOf(HasSubstr("1 compressed file beside"), HasSubstr(std::filesystem::path(compressed).filename()),
                      HasSubstr("gunzip")));
    folder.Write(Decompressed(compressed), "x");  // as gunzip --keep leaves both
    DetectFormat(folder.path(), {"train", "val"});
  }
}

TEST(DetectFormat, AsksAboutATableBesideImages) {
  const TemporaryFolder folder;
  folder.Write("train.csv", "x");
  EXPECT_EQ(DetectFormat(folder.path(), {"train"}), "sentences");
  EXPECT_ERROR("holds sentences with labels", OpenSource({.data_dir = folder.path(), .format = "sentences"}, "train"));
  folder.Write("train/a/1.txt", "a caption");
  folder.Write("train/a/1.jpg", "x");
  EXPECT_ERROR("as imagefolder and as sentences", DetectFormat(folder.path(), {"train"}));
  folder.Write("train/1.jpg", "x");
  EXPECT_EQ(DetectFormat(folder.path(), {"train"}), "imagefolder") << "which says where the table's labels belong";
  const TemporaryFolder binarised;
  binarised.Write("input0/train.bin", "x");
  binarised.Write("input0/train.idx", "x");
  EXPECT_EQ(DetectFormat(binarised.path(), {"train"}), "sentences");
}

// The records that were not listed would be missing in silence.
TEST(DetectFormat, AFolderThatCannotBeListedIsAnError) {
  const TemporaryFolder folder;
  folder.Write("train-0.tar", Record(0));
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const rlimit none{0, files.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const std::string message = MessageOf([&] { HasSplit("webdataset", folder.path(), "train"); });
  setrlimit(RLIMIT_NOFILE, &files);
  EXPECT_THAT(message, HasSubstr("cannot list " + folder.path().string()));
}

TEST(OpenSource, AShardIsNoFolderOfShards) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("train-000000.tar", Record(0));
  EXPECT_ERROR("train-000000.tar is a file of records",
               OpenSource({.data_dir = path, .format = "safetensors"}, "train"));
}

TEST(DetectFormat, RefusesToChoose) {
  const TemporaryFolder folder;
  folder.Write("train/a/1.jpg", "x");
  folder.Write("train.tar", "x");
  EXPECT_ERROR("as webdataset and as imagefolder | say which one: --data_format=webdataset",
               DetectFormat(folder.path(), {"train"}));
}

// The labels of a part without the first and the last class could count from 0 or from 1.
TEST(OpenSource, APackSaysWhatItsFirstLabelIs) {
  const TemporaryFolder folder;
  folder.Write("val.tar", Record(1) + Record(2));
  folder.Write("classes.txt", "a\nb\nc\n");
  const auto label = [&](const Classes& classes = {}, std::optional<int64_t> said = {}) {
    const SourceOptions options{
        .data_dir = folder.path(), .format = "webdataset", .label_offset = said, .classes = classes};
    return OpenSource(options, "val")->Label(0);
  };
  EXPECT_ERROR("may count from 0 or from 1", label());
  EXPECT_EQ(label({.label_offset = 1}), 0);
  for (const char* other : {R"({"format": "tfrecord", "splits": {"val": {}}, "first_label": 1})",
                            R"({"format": "webdataset", "splits": {"train": {}}, "first_label": 1})",
                            R"({"format": "webdataset", "splits": {"val": {}}, "first_label": -5})", "[", "[]"}) {
    folder.Write("pack.json", other);
    EXPECT_ERROR("may count from 0 or from 1", label()) << other;
  }
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  folder.Write("pack.json", R"({"format": "webdataset", "first_label": 1, "splits": )" + deep + "}");
  EXPECT_ERROR("may count from 0 or from 1", label());
  folder.Write("pack.json", R"({"format": "webdataset", "splits": {"val": {}}, "first_label": 1})");
  EXPECT_EQ(label(), 0);
  EXPECT_EQ(label({.label_offset = 0}), 0) << "an offset of other files";
  EXPECT_EQ(label({}, 0), 1) << "the user's word";
}

TEST(OpenSource, NoPipeBesideDataIsWaitedForAndNothingEndlessIsRead) {
  for (const char* name : {"classes.txt", "pack.json"}) {
    const TemporaryFolder folder;
    folder.Write("train.tar", Record(0));
    const auto open = [&] { OpenSource({.data_dir = folder.path(), .format = "webdataset"}, "train"); };
    ASSERT_EQ(mkfifo(folder.path(name).c_str(), 0600), 0);
    EXPECT_THAT(MessageAndHint(open), HasSubstr("not a regular file")) << name;
    std::filesystem::remove(folder.path(name));
    std::filesystem::create_symlink("/dev/zero", folder.path(name));
    EXPECT_THAT(MessageAndHint(open), HasSubstr("not a regular file")) << name;
    std::filesystem::remove(folder.path(name));
    std::filesystem::resize_file(folder.Write(name, ""), uintmax_t{1} << 40);
    EXPECT_THAT(MessageAndHint(open), HasSubstr("1099511627776 bytes")) << name;
  }
}

int64_t SizeOf(const TemporaryFolder& folder, bool rebuild = false) {
  return OpenSource({.data_dir = folder.path(), .format = "imagefolder", .rebuild_index = rebuild}, "train")->size();
}

// Sets a folder's time explicitly: two changes may fall into one tick of the clock.
void SetTime(const TemporaryFolder& folder, const std::string& name, int seconds) {
  std::filesystem::last_write_time(folder.path(name),
                                   std::filesystem::file_time_type() + std::chrono::seconds(seconds));
}

TEST(ImageFolderIndex, IsListedAnewWhenAFolderHasChanged) {
  const TemporaryFolder folder;
  folder.Write("train/a/1.jpg", "x");
  folder.Write("train/b/sub/2.jpg", "x");
  SetTime(folder, "train/b/sub", 1);
  EXPECT_EQ(SizeOf(folder), 2);
  EXPECT_TRUE(std::filesystem::exists(folder.path("train.imagefolder.index")));

  folder.Write("train/b/sub/3.jpg", "x");
  SetTime(folder, "train/b/sub", 1);
  EXPECT_EQ(SizeOf(folder), 2) << "nothing seems to have changed: the index is used";
  EXPECT_EQ(SizeOf(folder, /*rebuild=*/true), 3);
  folder.Write("train/b/sub/4.jpg", "x");
  SetTime(folder, "train/b/sub", 2);
  EXPECT_EQ(SizeOf(folder), 4);
  folder.Write("train/c/5.jpg", "x");
  SetTime(folder, "train", 3);
  EXPECT_EQ(SizeOf(folder), 5) << "a new class";
}

TEST(OpenSource, AFolderThatIsNotThereHasNoWrongLabels) {
  const TemporaryFolder folder;
  SourceOptions options{.data_dir = folder.path("none"), .format = "imagefolder", .labels = LabelKind::kNumbers};
  EXPECT_ERROR("there is no folder", OpenSource(options, "train"));
  options.data_dir = folder.path();
  EXPECT_ERROR("has one class for each image", OpenSource(options, "train"));
}

TEST(OpenSource, NamesOfClassesAreUtf8) {
  const TemporaryFolder folder;
  folder.Write("train/\xff\xfe/1.jpg", "x");
  const SourceOptions options{.data_dir = folder.path(), .format = "imagefolder"};
  for (int from_index = 0; from_index < 2; ++from_index) {
    EXPECT_ERROR("the name of the class '\\xff\\xfe' is not UTF-8", OpenSource(options, "train"));
  }
}

TEST(ImageFolderIndex, OneThatCannotBeKeptIsHandedOn) {
  const TemporaryFolder folder;
  folder.Write("train/a/1.jpg", "x");
  SharedIndexes indexes;
  const SourceOptions options{
      .data_dir = folder.path(), .format = "imagefolder", .index_dir = "/proc/none", .indexes = &indexes};
  EXPECT_EQ(OpenSource(options, "train")->size(), 1);
  ASSERT_TRUE(indexes.contains("train"));
  folder.Write("train/a/2.jpg", "x");
  EXPECT_EQ(OpenSource(options, "train")->size(), 1) << "nothing is listed";
  std::filesystem::rename(folder.path("train/a"), folder.path("train/b"));
  EXPECT_EQ(OpenSource(options, "train")->size(), 2) << "an index of other folders";
  EXPECT_EQ(OpenSource(options, "train")->class_names(), std::vector<std::string>{"b"}) << "replaced";
  indexes["train"] = "damaged";
  EXPECT_EQ(OpenSource(options, "train")->size(), 2);
  SourceOptions anew = options;
  anew.rebuild_index = true;
  anew.indexes = nullptr;
  EXPECT_ERROR("or name another --index_dir", OpenSource(anew, "train"));
}

TEST(ImageFolderIndex, OneThatIsKeptIsNotHandedOn) {
  const TemporaryFolder folder;
  folder.Write("train/a/1.jpg", "x");
  SharedIndexes indexes;
  OpenSource({.data_dir = folder.path(), .format = "imagefolder", .indexes = &indexes}, "train");
  EXPECT_TRUE(indexes.empty());
}

TEST(OpenSource, SaysWhichTarsMayHaveBeenCut) {
  const TemporaryFolder folder;
  const RecordFormat& format = *FindRecordFormat("webdataset");
  for (const char* name : {"train-0.tar", "train-1.tar"}) {
    folder.Write(name, format.Frame({.bytes = AsBytes("image"), .label = 0, .index = 0}));
  }
  std::vector<std::string> notes;
  for (int from_index = 0; from_index < 2; ++from_index) {
    OpenSource({.data_dir = folder.path(),
                .format = "webdataset",
                .note = [&](const std::string& text) { notes.push_back(text); }},
               "train");
  }
  EXPECT_THAT(notes, testing::Each(HasSubstr("the mark of the end is missing in train-0.tar, train-1.tar,")));
  EXPECT_EQ(notes.size(), 2U);
}

TEST(OpenSource, SaysWhichShardIsMissingBetweenOthers) {
  const TemporaryFolder folder;
  const RecordFormat& format = *FindRecordFormat("recordio");
  std::vector<std::string> notes;
  const auto open = [&](const char* split) {
    OpenSource({.data_dir = folder.path(),
                .format = "recordio",
                .note = [&](const std::string& text) { notes.push_back(text); }},
               split);
  };
  for (const char* name : {"train-008.rec", "train-009.rec", "train-011.rec", "val-2019.rec", "val-2021.rec"}) {
    folder.Write(name, format.Frame({.bytes = AsBytes("image"), .label = 0, .index = 0}));
  }
  open("val");  // years, perhaps
  open("train-00");
  EXPECT_TRUE(notes.empty());
  open("train");
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], HasSubstr("train-010.rec is missing"));
}

// A pack says what its labels count from, also of some of its shards.
TEST(OpenSource, SomeShardsOfAPackCanBeChosen) {
  const TemporaryFolder folder;
  const RecordFormat& format = *FindRecordFormat("tfrecord");
  for (const char* name : {"train-00000-of-00020", "train-00001-of-00020"}) {
    folder.Write(name, format.Frame({.bytes = AsBytes("image"), .label = 4, .index = 0}));
  }
  folder.Write("pack.json", R"({"format": "tfrecord", "first_label": 1, "splits": {"train": {"shards": 20}}})");
  const SourceOptions options{.data_dir = folder.path(), .format = "tfrecord"};
  EXPECT_THAT(MessageAndHint([&] { OpenSource(options, "train"); }), HasSubstr("--train_split=train-0000"));
  const auto some = OpenSource(options, "train-0000");
  EXPECT_EQ(some->size(), 2);
  EXPECT_EQ(some->Label(0), 4);
  EXPECT_EQ(OpenSource(options, "train-00001")->size(), 1);
}

TEST(OpenSource, APackSaysHowManyRecordsItHas) {
  const TemporaryFolder folder;
  const RecordFormat& format = *FindRecordFormat("tfrecord");
  const std::string record = format.Frame({.bytes = AsBytes("image"), .label = 0, .index = 0});
  folder.Write("train-00000-of-00001", record + record);
  const SourceOptions options{.data_dir = folder.path(), .format = "tfrecord"};
  const auto write = [&](int packed) {
    folder.Write("pack.json", R"({"format": "tfrecord", "first_label": 1, "splits": {"train": {"packed": )" +
                                  std::to_string(packed) + "}}}");
  };
  write(2);
  EXPECT_EQ(OpenSource(options, "train")->size(), 2);
  write(3);
  EXPECT_ERROR("holds 2 of the 3 records", OpenSource(options, "train"));
  EXPECT_EQ(OpenSource(options, "train-00000")->size(), 2) << "chosen by the beginning of their numbers";
  write(4);
  folder.Write("train-00000-of-00001", record + "damage" + record);
  EXPECT_EQ(OpenSource(options, "train")->size(), 3) << "a bad record";
}

// All folders have one time, as in some images of containers.
TEST(ImageFolderIndex, EachSplitHasItsOwn) {
  const TemporaryFolder folder;
  for (const char* name : {"train/a/1.jpg", "train/a/2.jpg", "train/a/3.jpg", "val/a/1.jpg", "fold/train/a/1.jpg"})
    folder.Write(name, "x");
  for (const char* name : {"train/a", "train", "val/a", "val", "fold/train/a", "fold/train"}) SetTime(folder, name, 1);
  const SourceOptions options{.data_dir = folder.path(), .format = "imagefolder"};
  for (int from_index = 0; from_index < 2; ++from_index) {
    EXPECT_EQ(OpenSource(options, "val/")->size(), 1);
    EXPECT_EQ(OpenSource(options, "fold/train")->size(), 1);
    EXPECT_EQ(OpenSource(options, "train/")->size(), 3);
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path("train.imagefolder.index")));
}

TEST(OpenSource, TarsNamedByNumbersAloneAreTakenAsAFolder) {
  const TemporaryFolder folder;
  const RecordFormat& format = *FindRecordFormat("webdataset");
  folder.Write("00000.tar", format.Frame({.bytes = AsBytes("image"), .label = 0, .index = 0}) + format.FileEnd());
  EXPECT_EQ(DetectFormat(folder.path(), {"train"}), "imagefolder");  // which is refused with a hint
  ASSERT_EQ(DetectFormat(folder.path(), {"."}), "webdataset");
  EXPECT_EQ(OpenSource({.data_dir = folder.path(), .format = "webdataset"}, ".")->size(), 1);
}

}  // namespace
}  // namespace dtrain::data
