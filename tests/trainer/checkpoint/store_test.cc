#include "trainer/checkpoint/store.h"

#include <gmock/gmock.h>

#include <fstream>
#include <utility>
#include <vector>

#include "tests/fault_record.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/checkpoint/snapshots.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/errors.h"

namespace dtrain::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kFiles = {"model.safetensors", "optimizer.safetensors", "model_ema.safetensors",
                                         "state.json", "manifest.json"};

class StoreTest : public ::testing::Test {
 protected:
  TemporaryFolder run;
  Store store{run.path()};
};

TEST_F(StoreTest, PublishesWhatItLoads) {
  EXPECT_EQ(store.FindNewestValid(nullptr), std::nullopt);
  const Checkpoint saved = store.Publish(MakeSnapshot(1234));
  EXPECT_EQ(saved.directory, run / "checkpoints/step-000001234");
  EXPECT_EQ(ReadAll(run / "latest"), "checkpoints/step-000001234\n");
  const auto found = store.FindNewestValid(nullptr);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 1234);
  EXPECT_TRUE(HoldsItsSnapshot(*found));
}

TEST_F(StoreTest, EqualSnapshotsAreEqualBytes) {
  const TemporaryFolder other;
  const fs::path a = store.Publish(MakeSnapshot(5)).directory,
                 b = Store(other.path()).Publish(MakeSnapshot(5)).directory;
  for (const std::string& file : kFiles) EXPECT_EQ(ReadAll(a / file), ReadAll(b / file));
}

// Flips every bit in turn.
TEST_F(StoreTest, AnyFlippedBitIsNoticed) {
  const fs::path directory = store.Publish(MakeSnapshot(5)).directory;
  int64_t bits = 0;
  for (const std::string& file : kFiles) {
    const std::string content = ReadAll(directory / file);
    std::fstream bytes(directory / file, std::ios::in | std::ios::out | std::ios::binary);
    const auto write = [&bytes](size_t byte, char value) {
      bytes.seekp(static_cast<std::streamoff>(byte)).put(value).flush();
    };
    for (size_t byte = 0; byte < content.size(); ++byte) {
      for (int bit = 0; bit < 8; ++bit, ++bits) {
        write(byte, static_cast<char>(content[byte] ^ (1 << bit)));
        ASSERT_TRUE(ProblemOf(directory)) << file << " byte " << byte << " bit " << bit;
      }
      write(byte, content[byte]);
    }
  }
  EXPECT_EQ(ProblemOf(directory), std::nullopt);
  RecordFault(13, "any bit of a checkpoint is flipped", "noticed", bits);
}

TEST_F(StoreTest, AnyTruncationOrAdditionIsNoticed) {
  const fs::path directory = store.Publish(MakeSnapshot(5)).directory;
  int64_t cases = 0;
  for (const std::string& file : kFiles) {
    const std::string content = ReadAll(directory / file);
    cases += static_cast<int64_t>(content.size()) + 2;
    for (size_t size = 0; size < content.size(); ++size) {
      fs::resize_file(directory / file, size);
      EXPECT_TRUE(ProblemOf(directory)) << file << " cut to " << size;
      WriteAll(directory / file, content);
    }
    WriteAll(directory / file, content + " ");
    EXPECT_TRUE(ProblemOf(directory)) << file << " longer";
    fs::remove(directory / file);
    EXPECT_TRUE(ProblemOf(directory)) << file << " missing";
    WriteAll(directory / file, content);
  }
  EXPECT_EQ(ProblemOf(directory), std::nullopt);
  RecordFault(13, "a file of a checkpoint is cut at any byte, longer or missing", "noticed", cases);
}

TEST_F(StoreTest, FallsBackLoudlyAndRefusesWhenNothingIsWhole) {
  for (const int64_t step : {10, 20, 30}) store.Publish(MakeSnapshot(step));
  fs::resize_file(store.DirectoryOf(30) / "model.safetensors", 100);
  std::vector<std::pair<std::string, std::string>> reported;
  const auto on_invalid = [&](const fs::path& directory, const std::string& reason) {
    reported.emplace_back(directory.filename().string(), reason);
  };
  EXPECT_EQ(store.FindNewestValid(on_invalid)->step, 20);
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_EQ(reported[0].first, "step-000000030");
  EXPECT_THAT(reported[0].second, HasSubstr("model.safetensors has 100 bytes"));

  fs::remove(store.DirectoryOf(20) / "manifest.json");
  fs::resize_file(store.DirectoryOf(10) / "state.json", 0);
  const auto find = [&] { store.FindNewestValid(nullptr); };
  EXPECT_THAT(MessageOf(find), HasSubstr("none of the 3 checkpoints"));
  EXPECT_THAT(HintOf(find), HasSubstr("--resume=none"));
}

TEST_F(StoreTest, KeepsAValidCheckpointOfTheSameStepAndReplacesADamagedOne) {
  const fs::path directory = store.Publish(MakeSnapshot(5)).directory;
  Snapshot other = MakeSnapshot(5);
  other.state["seed"] = 8;
  store.Publish(other);
  EXPECT_EQ(Load({5, directory}).state.at("seed"), 7);
  fs::resize_file(directory / "model.safetensors", 3);
  store.Publish(other);
  EXPECT_EQ(ProblemOf(directory), std::nullopt);
  EXPECT_EQ(Load({5, directory}).state.at("seed"), 8);
  EXPECT_EQ(std::distance(fs::directory_iterator(run / "checkpoints"), fs::directory_iterator()), 1);
}

TEST_F(StoreTest, PrunesDownwardsFromTheNewestValid) {
  for (const int64_t step : {10, 20, 30, 40}) store.Publish(MakeSnapshot(step));
  fs::resize_file(store.DirectoryOf(40) / "model.safetensors", 3);
  store.Prune(*store.FindNewestValid(nullptr), 2);
  EXPECT_THAT(store.Steps(), ElementsAre(20, 30, 40));
  store.Prune(*store.FindNewestValid(nullptr), 0);  // the newest one always stays
  EXPECT_THAT(store.Steps(), ElementsAre(30, 40));
}

TEST_F(StoreTest, RemovesLeftoversOnly) {
  store.RemoveLeftovers();  // of an empty run directory
  store.Publish(MakeSnapshot(5));
  fs::create_directories(run / "checkpoints/tmp.1.step-000000006");
  WriteAll(run / "checkpoints/tmp.1.step-000000006/model.safetensors", "half");
  fs::create_directories(run / "checkpoints/mine");
  store.RemoveLeftovers();
  EXPECT_FALSE(fs::exists(run / "checkpoints/tmp.1.step-000000006"));
  EXPECT_TRUE(fs::exists(run / "checkpoints/mine"));
  EXPECT_THAT(store.Steps(), ElementsAre(5));
}

TEST_F(StoreTest, SetsAsideWhatAnOlderStateHasLeftBehind) {
  for (const int64_t step : {10, 20, 30}) store.Publish(MakeSnapshot(step));
  EXPECT_EQ(store.SetAsideNewerThan(10), 2);
  EXPECT_THAT(store.Steps(), ElementsAre(10));
  store.Publish(MakeSnapshot(20));
  EXPECT_EQ(store.SetAsideNewerThan(-1), 2);
  EXPECT_THAT(store.Steps(), ElementsAre());
  EXPECT_TRUE(fs::exists(run / "checkpoints/aside-2-step-000000020"));
}

TEST_F(StoreTest, OpensACheckpointOrARunDirectory) {
  store.Publish(MakeSnapshot(5));
  store.Publish(MakeSnapshot(6));
  EXPECT_EQ(OpenCheckpoint(run.path(), nullptr).step, 6);
  EXPECT_EQ(OpenCheckpoint(store.DirectoryOf(5), nullptr).step, 5);
  EXPECT_EQ(OpenCheckpoint(store.DirectoryOf(5).string() + "/", nullptr).step, 5);
  EXPECT_THROW(OpenCheckpoint(run / "none", nullptr), StorageError);
  fs::resize_file(store.DirectoryOf(6) / "state.json", 1);
  EXPECT_THROW(OpenCheckpoint(store.DirectoryOf(6), nullptr), StorageError);
  fs::rename(store.DirectoryOf(5), store.DirectoryOf(7));
  EXPECT_THAT(ProblemOf(store.DirectoryOf(7)).value_or(""), HasSubstr("step 5"));
}

TEST_F(StoreTest, SizesAreComparedBeforeAnythingIsRead) {
  store.Publish(MakeSnapshot(5));
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    const fs::path path = store.DirectoryOf(5) / name;
    const auto size = fs::file_size(path);
    fs::resize_file(path, uintmax_t{1} << 40);  // a sparse file; reading it would take an hour
    EXPECT_EQ(ProblemOf(store.DirectoryOf(5)),
              std::string(name) + " has 1099511627776 bytes instead of " + std::to_string(size));
    fs::resize_file(path, size);
  }
  EXPECT_EQ(ProblemOf(store.DirectoryOf(5)), std::nullopt);
  WriteAll(store.DirectoryOf(5) / "manifest.json", ManifestText({.step = INT64_MIN, .files = {}}));
  EXPECT_EQ(ProblemOf(store.DirectoryOf(5)), "manifest.json has step -9223372036854775808");
}

TEST_F(StoreTest, AHostileManifestOrStateIsAnError) {
  const fs::path directory = store.Publish(MakeSnapshot(5)).directory;
  for (const std::string& text : {std::string(60000, '['), std::string(100000, ' '), std::string(R"({"format":1})"),
                                  std::string(R"({"format":2,"step":5,"files":{}})"), std::string("null")}) {
    WriteAll(directory / "manifest.json", text);
    EXPECT_TRUE(ProblemOf(directory)) << text.substr(0, 40);
  }
  // A state with a right checksum and a wrong structure.
  WriteAll(directory / "state.json", std::string(100000, '['));
  EXPECT_THROW(Load({5, directory}), StorageError);
  WriteAll(directory / "state.json", "{}");
  WriteAll(directory / "model.safetensors", "nonsense");
  EXPECT_THROW(Load({5, directory}), StorageError);
}

}  // namespace
}  // namespace dtrain::checkpoint
