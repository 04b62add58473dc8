#include "data/formats/packed_records.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>

#include "data/formats/record_format.h"
#include "tests/data/formats/record_bytes.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Frames one of ten records, "image 0" to "image 9" with labels 0 to 9.
std::string Frame(const std::string& format, int64_t i) {
  const std::string image = "image " + std::to_string(i);
  const RecordFormat& found = *FindRecordFormat(format);
  return found.Frame({.bytes = AsBytes(image), .label = i - found.first_label(), .index = i});
}

struct Shards {
  explicit Shards(std::string format_name) : format(std::move(format_name)) {
    for (int i = 0; i < 10; ++i) {
      begins[i] = content[i / 5].size();
      content[i / 5] += Frame(format, i);
    }
    const std::string extension = FindRecordFormat(format)->extensions().front();
    for (int i = 0; i < 2; ++i) {
      names[i] = "train-" + std::to_string(i) + extension;
      Write(i);
    }
  }
  void Write(int shard) {
    folder.Write(names[shard], content[shard]);
    // Gives each write its own time: two may fall into one tick of the clock.
    const auto time = std::filesystem::file_time_type() + std::chrono::seconds(++writes);
    std::filesystem::last_write_time(folder.path(names[shard]), time);
  }
  PackedRecords Open() {
    const RecordFormat& found = *FindRecordFormat(format);
    const RecordFiles files = RequireRecordFiles(folder.path(), "train", found);
    return {found, folder.path(), IndexRecordFiles(found, folder.path(), files, {.path = index_path()}), 0};
  }
  std::string index_path() const { return folder.path("train.index"); }

  TemporaryFolder folder;
  std::string format, names[2], content[2];
  size_t begins[10] = {};
  int writes = 0;
};

// Returns each record's image, such as "image 3", or "bad".
std::vector<std::string> Images(const PackedRecords& source) {
  std::vector<std::string> images;
  for (int64_t i = 0; i < source.size(); ++i) {
    try {
      images.push_back(ToString(source.Read(i)));
    } catch (const DataError&) {
      images.emplace_back("bad");
    }
  }
  return images;
}

std::vector<std::string> FormatNames() {
  std::vector<std::string> names;
  for (const RecordFormat* format : RecordFormats()) names.push_back(format->name());
  return names;
}

class EachFormat : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(PackedRecords, EachFormat, testing::ValuesIn(FormatNames()),
                         [](const auto& parameter) { return parameter.param; });

TEST_P(EachFormat, RecordsOfAllShardsInOrder) {
  Shards shards(GetParam());
  shards.folder.Write("classes.txt", "c0\nc1\nc2\nc3\nc4\nc5\nc6\nc7\nc8\nc9\nnever seen\n");
  const PackedRecords source = shards.Open();
  ASSERT_EQ(source.size(), 10);
  EXPECT_EQ(source.num_classes(), 11);
  EXPECT_EQ(source.class_names()[9], "c9");
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(ToString(source.Read(i)), "image " + std::to_string(i));
    EXPECT_EQ(source.Label(i), i);
    EXPECT_EQ(source.Location(i),
              shards.folder.path(shards.names[i / 5]) + " at byte " + std::to_string(shards.begins[i]));
  }
}

TEST_P(EachFormat, AnIndexThatFitsIsUsedAndAnOlderOneIsNot) {
  Shards shards(GetParam());
  const std::string fingerprint = shards.Open().fingerprint();
  RecordIndex kept = *LoadIndex(shards.index_path());
  kept.records.pop_back();
  ASSERT_EQ(SaveIndex(shards.index_path(), kept), "");
  EXPECT_EQ(shards.Open().size(), 9) << "the kept index is believed while its files are as they were";
  shards.Write(1);
  EXPECT_EQ(shards.Open().size(), 10) << "the file is newer";
  EXPECT_EQ(shards.Open().fingerprint(), fingerprint) << "but has its name and size";
  shards.content[1] += Frame(shards.format, 7);
  shards.Write(1);
  EXPECT_EQ(shards.Open().size(), 11);
  EXPECT_NE(shards.Open().fingerprint(), fingerprint);
}

// With a damaged header, one record is bad and the others keep their numbers, whether or not an index existed.
TEST_P(EachFormat, DamageCostsOneRecord) {
  for (const bool indexed : {false, true}) {
    Shards shards(GetParam());
    if (indexed) shards.Open();
    shards.content[0][shards.begins[2]] ^= 0x55;
    shards.Write(0);
    const PackedRecords source = shards.Open();
    EXPECT_THAT(Images(source), ElementsAre("image 0", "image 1", "bad", "image 3", "image 4", "image 5", "image 6",
                                            "image 7", "image 8", "image 9"));
    EXPECT_EQ(source.Label(2), indexed ? 2 : -1);
    EXPECT_THAT(source.Location(2), HasSubstr("at byte " + std::to_string(shards.begins[2])));
  }
}

// As rsync repairs a copy. The index is that of the damaged file, without the label.
TEST_P(EachFormat, ARecordThatWasRepairedIsBadUntilTheIndexIsMadeAnew) {
  Shards shards(GetParam());
  const std::string intact = shards.content[0];
  shards.content[0][shards.begins[2]] ^= 0x55;
  shards.Write(0);
  shards.Open();
  const auto time = std::filesystem::last_write_time(shards.folder.path(shards.names[0]));
  shards.content[0] = intact;
  shards.Write(0);
  std::filesystem::last_write_time(shards.folder.path(shards.names[0]), time);
  EXPECT_ERROR("make that anew with dtrain_data index", shards.Open().Read(2));
  std::filesystem::remove(shards.index_path());
  EXPECT_EQ(ToString(shards.Open().Read(2)), "image 2");
}

// Two neighbours are lost: only the old index can tell that they were two.
TEST_P(EachFormat, TheOldIndexKeepsTheNumbers) {
  Shards shards(GetParam());
  shards.Open();
  for (const int i : {2, 3}) shards.content[0][shards.begins[i]] ^= 0x55;
  shards.Write(0);
  const PackedRecords source = shards.Open();
  ASSERT_EQ(source.size(), 10);
  EXPECT_THAT(MessageAndHint([&] { source.Read(3); }), testing::Not(HasSubstr("no error")));
  EXPECT_EQ(ToString(source.Read(4)), "image 4");
}

TEST_P(EachFormat, TruncatedFilesLoseTheirEndAlone) {
  Shards shards(GetParam());
  const PackedRecords before = shards.Open();
  std::filesystem::resize_file(shards.folder.path(shards.names[1]), shards.begins[8] + 10);
  EXPECT_ERROR("ends at byte", before.Read(9)) << "shortened while it is open";
  EXPECT_EQ(ToString(before.Read(7)), "image 7");
  const PackedRecords source = shards.Open();
  EXPECT_THAT(Images(source), ElementsAre("image 0", "image 1", "image 2", "image 3", "image 4", "image 5", "image 6",
                                          "image 7", "bad"));
}

TEST_P(EachFormat, TextAndEmptyFilesAreNamed) {
  Shards shards(GetParam());
  shards.content[1] = "This is text. " + std::string(2000, 'x');
  shards.Write(1);
  EXPECT_ERROR(shards.folder.path(shards.names[1]) + " at byte 0: ", shards.Open());
  shards.content[0] = shards.content[1] = "";
  shards.Write(0);
  shards.Write(1);
  EXPECT_ERROR("no record in", shards.Open());
}

TEST(PackedRecords, ARecordWithALengthThatIsTooSmallIsCaughtByTheIndex) {
  Shards shards("recordio");
  shards.Open();
  shards.content[0][shards.begins[2] + 4] -= 4;  // "image 2" loses its end, and no magic follows it
  shards.Write(0);
  EXPECT_THAT(Images(shards.Open()), ElementsAre("image 0", "image 1", "bad", "image 3", "image 4", "image 5",
                                                 "image 6", "image 7", "image 8", "image 9"));
}

TEST(OpenFiles, TheOneOpenedFirstIsClosedOnceItsReadersAreDone) {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  for (int i = 0; i < 3; ++i) {
    folder.Write(std::to_string(i), "text");
    paths.push_back(folder.path(std::to_string(i)));
  }
  OpenFiles files(paths, /*most_open=*/2);
  std::shared_ptr<const RandomAccessFile> read = files.Get(0);
  const std::weak_ptr<const RandomAccessFile> first = read, second = files.Get(1);
  files.Get(2);
  EXPECT_EQ(read->size(), 4);
  read.reset();
  EXPECT_TRUE(first.expired());
  EXPECT_FALSE(second.expired());
}

TEST(OpenFiles, MoreStayOpenWhereMoreMayBe) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  if (before.rlim_max < 8192) GTEST_SKIP() << "needs 8192 open files: run it after ulimit -Hn 8192";
  const rlimit raised{.rlim_cur = 8192, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &raised), 0);
  const TemporaryFolder folder;
  folder.Write("shard", "text");
  OpenFiles files(std::vector<std::string>(300, folder.path("shard")));
  const std::weak_ptr<const RandomAccessFile> first = files.Get(0);
  for (size_t i = 1; i < 300; ++i) files.Get(i);
  EXPECT_FALSE(first.expired());
  setrlimit(RLIMIT_NOFILE, &before);
}

// What a format writes, it finds and reads: the names of its files, its records, and its own index, if it has one.
TEST(RecordFormats, ReadWhatTheyWrite) {
  for (const RecordFormat* format : RecordFormats()) {
    const TemporaryFolder folder;
    for (int64_t file = 0; file < 3; ++file) {
      const std::string name = format->FileName("train", file, 3), first = Frame(format->name(), 3 * file);
      folder.Write(name, first + Frame(format->name(), 3 * file + 1) + format->FileEnd());
      const std::vector<PlacedRecord> records = {{3 * file, 0}, {3 * file + 1, first.size()}};
      const std::string index = format->MakeIndex(records), beside = format->IndexBeside(name);
      if (!beside.empty()) folder.Write(beside, index);
      EXPECT_EQ(format->KnownRecords(index, 2 * first.size()).size(), beside.empty() ? 0U : 2U) << format->name();
    }
    const RecordFiles files = RequireRecordFiles(folder.path(), "train", *format);
    ASSERT_EQ(files.names.size(), 3U) << format->name();
    const PackedRecords source(*format, folder.path(),
                               IndexRecordFiles(*format, folder.path(), files, {.path = folder.path("index")}), 0);
    EXPECT_EQ(source.size(), 6);
    EXPECT_EQ(ToString(source.Read(5)), "image 7") << format->name();
    EXPECT_EQ(source.Label(5), 7) << format->name();
  }
}

TEST(PackedRecords, ClassesThatAreNotNamedAreFound) {
  Shards shards("webdataset");
  shards.folder.Write("classes.txt", "a\nb\n");
  EXPECT_THAT(MessageAndHint([&] { shards.Open(); }),
              testing::AllOf(HasSubstr("at byte"), HasSubstr("label 2 is outside the 2 classes")));
}

TEST(RecordFiles, PrefixesAndFolders) {
  const TemporaryFolder folder;
  for (const char* name :
       {"train-00001-of-00002", "train-00000-of-00002", "training-00000-of-00001", "train-00000-of-00002.partial",
        "train.tfrecord.index", "validation-00000-of-00001", "eval_480_q90.tar", "eval_480_q90.idx",
        "train/shard-1.tar", "train/shard-0.tar", "valid-000000.tar"}) {
    folder.Write(name, "x");
  }
  const auto names = [&](const char* split, const char* format) {
    return FindRecordFiles(folder.path(), split, *FindRecordFormat(format)).names;
  };
  EXPECT_THAT(names("train", "tfrecord"), ElementsAre("train-00000-of-00002", "train-00001-of-00002"));
  EXPECT_THAT(names("eval", "webdataset"), ElementsAre("eval_480_q90.tar"));
  EXPECT_THAT(names("train", "webdataset"), ElementsAre("train/shard-0.tar", "train/shard-1.tar"));
  EXPECT_THAT(names("val", "tfrecord"), ElementsAre("validation-00000-of-00001"));
  EXPECT_EQ(FindRecordFiles(folder.path(), "val", *FindRecordFormat("webdataset")).split, "valid");
  EXPECT_THAT(names("test", "webdataset"), ElementsAre());
  EXPECT_ERROR("test*.tar", RequireRecordFiles(folder.path(), "test", *FindRecordFormat("webdataset")));
  EXPECT_ERROR("no folder", RequireRecordFiles(folder.path("no"), "val", *FindRecordFormat("webdataset")));
}

TEST(RecordFiles, AnExtensionBeforeTheNumberIsThatOfTheFormat) {
  const TemporaryFolder folder;
  for (const char* name : {"a.tar-00000-of-00001", "a.tfrecord-00000-of-00001", "a_0.tfrec"}) folder.Write(name, "x");
  const auto names = [&](const char* format) {
    return FindRecordFiles(folder.path(), "a", *FindRecordFormat(format)).names;
  };
  EXPECT_THAT(names("tfrecord"), ElementsAre("a.tfrecord-00000-of-00001", "a_0.tfrec"));
  EXPECT_THAT(names("webdataset"), ElementsAre("a.tar-00000-of-00001"));
}

TEST(RecordFiles, ANumberedSetMustBeWhole) {
  const TemporaryFolder folder;
  folder.Write("train-00000-of-00003", "x");
  folder.Write("train-00002-of-00003", "x");
  EXPECT_THAT(MessageAndHint([&] { FindRecordFiles(folder.path(), "train", *FindRecordFormat("tfrecord")); }),
              testing::AllOf(HasSubstr("has 2 of 00003"), HasSubstr("missing is number 00001")));
  EXPECT_THAT(FindRecordFiles(folder.path(), "train-0", *FindRecordFormat("tfrecord")).names,
              ElementsAre("train-00000-of-00003", "train-00002-of-00003"))
      << "chosen by the beginning of their numbers";
  folder.Write("train-00000-of-00002", "x");
  EXPECT_ERROR("several sets", FindRecordFiles(folder.path(), "train", *FindRecordFormat("tfrecord")));
  const TemporaryFolder halves;
  halves.Write("train-00000-of-00002", "x");
  halves.Write("train_small-00001-of-00002", "x");
  EXPECT_ERROR("several sets", FindRecordFiles(halves.path(), "train", *FindRecordFormat("tfrecord")));
}

TEST(PackedRecords, AFileThatMayHaveBeenCutBetweenRecordsIsNamed) {
  Shards shards("webdataset");
  shards.content[0] += FindRecordFormat("webdataset")->FileEnd();
  shards.Write(0);
  shards.Open();
  EXPECT_THAT(LoadIndex(shards.index_path())->cut, ElementsAre("train-1.tar"));
  shards.content[1] += std::string(512, '\0');
  shards.Write(1);
  shards.Open();
  EXPECT_THAT(LoadIndex(shards.index_path())->cut, ElementsAre()) << "one block of zeros is an end, too";
}

}  // namespace
}  // namespace dtrain::data
