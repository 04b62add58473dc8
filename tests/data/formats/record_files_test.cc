#include "data/formats/record_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/formats/record_bytes.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RecordFiles, PrefixesAndFolders) {
  const TemporaryFolder folder;
  for (const char* name :
       {"train-00001-of-00002", "train-00000-of-00002", "training-00000-of-00001", "train-00000-of-00002.partial",
        "train.tfrecord.index", "validation-00000-of-00001", "train_480_q90.rec", "train_480_q90.idx", "val.rec",
        "train/shard-1.tar", "train/shard-0.tar", "valid-000000.tar"}) {
    folder.Write(name, "x");
  }
  const auto names = [&](const char* split, const char* format) {
    return FindRecordFiles(folder.path(), split, *FindRecordFormat(format)).names;
  };
  EXPECT_THAT(names("train", "tfrecord"), ElementsAre("train-00000-of-00002", "train-00001-of-00002"));
  EXPECT_THAT(names("train", "recordio"), ElementsAre("train_480_q90.rec"));
  EXPECT_THAT(names("train", "webdataset"), ElementsAre("train/shard-0.tar", "train/shard-1.tar"));
  EXPECT_THAT(names("val", "tfrecord"), ElementsAre("validation-00000-of-00001"));
  EXPECT_EQ(FindRecordFiles(folder.path(), "val", *FindRecordFormat("webdataset")).split, "valid");
  EXPECT_THAT(names("test", "recordio"), ElementsAre());
  EXPECT_THAT(MessageAndHint([&] { RequireRecordFiles(folder.path(), "test", *FindRecordFormat("recordio")); }),
              HasSubstr("test*.rec"));
  EXPECT_THAT(MessageAndHint([&] { RequireRecordFiles(folder.path("no"), "val", *FindRecordFormat("recordio")); }),
              HasSubstr("no folder"));
}

TEST(RecordFiles, ANumberedSetMustBeWhole) {
  const TemporaryFolder folder;
  folder.Write("train-00000-of-00003", "x");
  folder.Write("train-00002-of-00003", "x");
  EXPECT_THAT(MessageAndHint([&] { FindRecordFiles(folder.path(), "train", *FindRecordFormat("tfrecord")); }),
              testing::AllOf(HasSubstr("has 2 of 00003"), HasSubstr("missing is number 00001")));
  folder.Write("train-00000-of-00002", "x");
  EXPECT_THAT(MessageAndHint([&] { FindRecordFiles(folder.path(), "train", *FindRecordFormat("tfrecord")); }),
              HasSubstr("several sets"));
}

}  // namespace
}  // namespace dtrain::data
