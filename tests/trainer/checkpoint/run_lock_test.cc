#include "trainer/checkpoint/run_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"
#include "trainer/errors.h"

namespace dtrain::checkpoint {
namespace {

using ::testing::HasSubstr;

class RunLockTest : public ::testing::Test {
 protected:
  TemporaryFolder run;
};

TEST_F(RunLockTest, TheSecondJobIsRefusedWithTheNameOfTheFirst) {
  RunLock first(run.path());
  EXPECT_EQ(first.warning(), "");
  const auto lock_again = [&] { RunLock second(run.path(), 0.1); };
  EXPECT_THAT(MessageOf(lock_again), HasSubstr("in use by process " + std::to_string(::getpid())));
  EXPECT_THAT(HintOf(lock_again), HasSubstr("--run_dir"));
}

TEST_F(RunLockTest, TheLockGoesWithItsHolder) {
  { RunLock first(run.path()); }
  { RunLock second(run.path(), 0); }

  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    RunLock lock(run.path(), 0);
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THROW(RunLock(run.path(), 0), StorageError);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_NO_THROW(RunLock(run.path(), 10));  // long enough for the child to end
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(RunLockTest, FollowsNoLinkAndTakesNoPipe) {
  WriteAll(run / "victim", "precious");
  std::filesystem::create_symlink(run / "victim", run / "lock");
  EXPECT_THROW(RunLock(run.path(), 0), StorageError);
  EXPECT_EQ(ReadAll(run / "victim"), "precious");
  std::filesystem::remove(run / "lock");
  ASSERT_EQ(::mkfifo((run / "lock").c_str(), 0600), 0);
  EXPECT_THROW(RunLock(run.path(), 0), StorageError);
  EXPECT_THROW(RunLock("/proc/none", 0), StorageError);
}

}  // namespace
}  // namespace dtrain::checkpoint
