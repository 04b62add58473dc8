#include "trainer/report/run_directory.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "tests/fault_record.h"
#include "tests/temporary_folder.h"
#include "tests/words.h"
#include "trainer/errors.h"

namespace dtrain::report {
namespace {

namespace fs = std::filesystem;
using ::testing::MatchesRegex;

class RunDirectoryTest : public ::testing::Test {
 protected:
  TemporaryFolder directory;
};

TEST_F(RunDirectoryTest, TwoRunsOfOneSecondHaveAFolderEach) {
  const auto make = [&] { return MakeDefaultRunDirectory(directory / "runs", "resnet50", 1700000000); };
  const fs::path first = make();
  EXPECT_THAT(first.string(), MatchesRegex(".*/runs/resnet50-202311[0-9]+-[0-9]+"));
  EXPECT_TRUE(fs::is_empty(first));
  EXPECT_EQ(make(), first.string() + "-2");
  EXPECT_EQ(make(), first.string() + "-3");
  directory.Write("file", "");
  EXPECT_THROW(MakeDefaultRunDirectory(directory / "file", "resnet50", 0), StorageError);
}

TEST_F(RunDirectoryTest, AllOfARunMovesAsideTogether) {
  const RunDirectory run(directory.path());
  EXPECT_EQ(MoveRunAside(run), std::nullopt);
  const auto of_the_run = Words(
      "config.json result.json metrics.jsonl model_best.safetensors checkpoints/step-000000001/state.json latest "
      "quarantine.rank1.jsonl attempts/001-from-step-000000000.json classes.txt error.rank2.json");
  const auto others = Words("notes.txt lock logs/rank-0.log profile_of_mine.txt");
  for (const auto* names : {&of_the_run, &others}) {
    for (const std::string& name : *names) directory.Write(name, name);
  }
  EXPECT_EQ(MoveRunAside(run), directory / "aside-1");
  for (const std::string& name : of_the_run) {
    EXPECT_FALSE(fs::exists(directory / name)) << name;
    EXPECT_EQ(ReadAll(directory / ("aside-1/" + name)), name);
  }
  for (const std::string& name : others) EXPECT_EQ(ReadAll(directory / name), name);
  EXPECT_EQ(MoveRunAside(run), std::nullopt);
  directory.Write("result.json", "again");
  EXPECT_EQ(MoveRunAside(run), directory / "aside-2");
}

TEST_F(RunDirectoryTest, AReadOnlyFolderIsRefused) {
  ASSERT_EQ(::chmod(directory.path().c_str(), 0555), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::getuid() == 0 && ::setuid(65534) != 0) ::_exit(1);  // root may write anywhere
    try {
      PrepareRunDirectory(RunDirectory(directory.path()));
      ::_exit(0);
    } catch (const StorageError&) {
      ::_exit(5);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 5);
  ::chmod(directory.path().c_str(), 0755);
  RecordFault(12, "the run directory cannot be written", "refused before step 0", 1);
}

}  // namespace
}  // namespace dtrain::report
