// The write path when the disk is full, missing or failing.
#include "trainer/checkpoint/durable_file.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"
#include "trainer/checkpoint/run_lock.h"
#include "trainer/errors.h"

namespace dtrain::checkpoint {
namespace {

using ::testing::HasSubstr;

class DurableFileTest : public ::testing::Test {
 protected:
  // Calls `body` in a child, where operations are counted from 1. Returns its exit code, 5 if it throws StorageError.
  template <typename Body>
  int CodeOf(const Body& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        body();
        ::_exit(0);
      } catch (const StorageError& error) {
        ::_exit(5);
      }
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -status;
  }

  TemporaryFolder directory;
};

TEST_F(DurableFileTest, DigestsWhatItWrote) {
  DurableFile file(directory / "file");
  file.Append("ab");
  file.Append("c");
  const FileDigest digest = file.Finish();
  EXPECT_EQ(digest.bytes, 3u);
  // FIPS 180-4, as published by NIST.
  EXPECT_EQ(digest.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(data::Sha256Of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(DigestOfFile(directory / "file").sha256, digest.sha256);
  EXPECT_EQ(ReadAll(directory / "file"), "abc");
}

TEST_F(DurableFileTest, SaysThatTheDiskIsFull) {
  const auto fail = [] { ThrowSystemError("write", "run/file", ENOSPC); };
  EXPECT_EQ(MessageOf(fail), "cannot write run/file: No space left on device");
  EXPECT_THAT(HintOf(fail), HasSubstr("--keep_checkpoints"));
}

TEST_F(DurableFileTest, SaysThatTheFileIsTooLarge) {
  const auto write = [&] {
    ::signal(SIGXFSZ, SIG_IGN);  // as both executables do
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto beyond = [&] { WriteAtomically(directory / "file", std::string(2000, 'x')); };
    ::_exit(HintOf(beyond).find("ulimit -f") != std::string::npos ? 3 : 1);
  };
  EXPECT_EQ(CodeOf(write), 3);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST_F(DurableFileTest, FollowsNoLinkAndWaitsForNoPipe) {
  WriteAll(directory / "victim", "precious");
  std::filesystem::create_symlink(directory / "victim", directory / ".file.tmp");
  WriteAtomically(directory / "file", "new");
  std::filesystem::create_hard_link(directory / "victim", directory / ".file.tmp");
  WriteAtomically(directory / "file", "newer");
  ASSERT_EQ(::mkfifo((directory / ".file.tmp").c_str(), 0600), 0);
  WriteAtomically(directory / "file", "newest");
  EXPECT_EQ(ReadAll(directory / "file"), "newest");
  EXPECT_EQ(ReadAll(directory / "victim"), "precious");
  std::filesystem::create_directory(directory / ".file.tmp");  // a folder, which WriteAtomically must not remove
  EXPECT_THROW(WriteAtomically(directory / "file", "never"), StorageError);
  EXPECT_THROW(DurableFile("/dev/full"), StorageError);
  EXPECT_TRUE(std::filesystem::exists("/dev/full"));
}

TEST_F(DurableFileTest, RefusesAMissingFolderAndPipes) {
  EXPECT_THROW(DurableFile(directory / "none/file"), StorageError);
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(DigestOfFile(directory / "pipe"), StorageError);
  EXPECT_THROW(DigestOfFile(directory.path()), StorageError);
}

TEST_F(DurableFileTest, ReadsNoMoreTextThanAllowed) {
  WriteAll(directory / "file", "12345");
  EXPECT_EQ(ReadTextFile(directory / "file", 5), "12345");
  EXPECT_THROW(ReadTextFile(directory / "file", 4), StorageError);
}

TEST_F(DurableFileTest, AtomicWriteFailsWithoutATrace) {
  constexpr int kOperations = 5;  // write, sync, close, rename, sync folder
  for (int operation = 1; operation <= kOperations + 1; ++operation) {
    WriteAll(directory / "file", "old");
    const auto write = [&] {
      ::setenv("DTRAIN_FAIL_AT", std::to_string(operation).c_str(), 1);
      WriteAtomically(directory / "file", "new");
    };
    EXPECT_EQ(CodeOf(write), operation <= kOperations ? 5 : 0) << operation;
    EXPECT_EQ(ReadAll(directory / "file"), operation < kOperations ? "old" : "new") << operation;
    EXPECT_FALSE(std::filesystem::exists(directory / ".file.tmp")) << operation;
  }
}

class RunLockTest : public ::testing::Test {
 protected:
  TemporaryFolder run;
};

TEST_F(RunLockTest, TheSecondJobIsRefusedWithTheNameOfTheFirst) {
  RunLock first(run.path());
  EXPECT_EQ(first.warning(), "");
  const auto lock_again = [&] { RunLock second(run.path()); };
  EXPECT_THAT(MessageOf(lock_again), HasSubstr("in use by process " + std::to_string(::getpid())));
  EXPECT_THAT(HintOf(lock_again), HasSubstr("--run_dir"));
  int asked = 0;
  EXPECT_THROW(RunLock(run.path(), [&asked](const std::string&) { return ++asked < 3; }), StorageError);
  EXPECT_EQ(asked, 3);
}

TEST_F(RunLockTest, TheLockGoesWithItsHolder) {
  { RunLock first(run.path()); }
  { RunLock second(run.path()); }

  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    RunLock lock(run.path());
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THROW(RunLock(run.path()), StorageError);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_NO_THROW(RunLock(run.path(), [](const std::string&) { return true; }));  // until the child has ended
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace dtrain::checkpoint
