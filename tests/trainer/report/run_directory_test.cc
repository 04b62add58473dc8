#include "trainer/report/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/temporary_folder.h"
#include "trainer/errors.h"

namespace dtrain::report {
namespace {

namespace fs = std::filesystem;
using ::testing::MatchesRegex;

TEST(RunDirectoryTest, NamesItsFiles) {
  const RunDirectory run("runs/x");
  EXPECT_EQ(run.model_best, fs::path("runs/x/model_best.safetensors"));
  EXPECT_EQ(run.quarantine(0), fs::path("runs/x/quarantine.jsonl"));
  EXPECT_EQ(run.quarantine(3), fs::path("runs/x/quarantine.rank3.jsonl"));
  EXPECT_THAT(DefaultRunDirectory("resnet50", 1700000000).string(), MatchesRegex("runs/resnet50-202311[0-9]+-[0-9]+"));
}

TEST(RunDirectoryTest, IsCreatedWithItsParentsAndLeftEmpty) {
  TemporaryFolder directory;
  const RunDirectory run(directory / "a/b/c");
  PrepareRunDirectory(run);
  PrepareRunDirectory(run);
  EXPECT_TRUE(fs::is_empty(run.root));
  WriteTextFile(run.config_json, "{}\n");
  EXPECT_EQ(ReadAll(run.config_json), "{}\n");
}

TEST(RunDirectoryTest, WhatCannotBeWrittenIsRefused) {
  TemporaryFolder directory;
  WriteAll(directory / "file", "");
  EXPECT_THROW(PrepareRunDirectory(RunDirectory(directory / "file/run")), StorageError);
  EXPECT_THROW(PrepareRunDirectory(RunDirectory(directory / "file")), StorageError);
  EXPECT_THROW(PrepareRunDirectory(RunDirectory("/proc/run")), StorageError);
}

TEST(RunDirectoryTest, AReadOnlyFolderIsRefused) {
  TemporaryFolder directory;
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
}

}  // namespace
}  // namespace dtrain::report
