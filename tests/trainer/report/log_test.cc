// Each case runs in a process of its own, because logging is set up once per process.
#include "trainer/report/log.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/temporary_folder.h"

namespace dtrain::report {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns the stderr of a process that logs a message of each severity.
std::string StderrOf(int rank, int world_size, const std::string& log_directory) {
  ::testing::internal::CaptureStderr();
  const pid_t child = ::fork();
  if (child == 0) {
    InitializeLogging(rank, world_size, log_directory);
    LogInfo("an info");
    LogWarning("a warning");
    LogWarning("a name with \x1b[2J\nINFO a forged line");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  return ::testing::internal::GetCapturedStderr();
}

TEST(LogTest, ASingleRankHasNoPrefix) {
  const std::string text = StderrOf(0, 1, "");
  EXPECT_THAT(text, ContainsRegex("^INFO 20[0-9-]+ [0-9]+:[0-9]+:[0-9]+.* an info\nWARNING .* a warning\n"));
  EXPECT_THAT(text, Not(HasSubstr("rank")));
  EXPECT_THAT(text, HasSubstr("a name with \\x1b[2J\\nINFO a forged line\n"));  // words of others are shown escaped
}

TEST(LogTest, LinesBeforeItIsSetUpArePlain) {
  ::testing::internal::CaptureStderr();
  const pid_t child = ::fork();
  if (child == 0) {
    LogWarning("rank 1 is still waiting");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "WARNING rank 1 is still waiting\n");
}

TEST(LogTest, TheFileHasEverythingAndOtherRanksAreQuiet) {
  TemporaryFolder directory;
  const std::string text = StderrOf(3, 4, directory / "logs");
  EXPECT_THAT(text, Not(HasSubstr("an info")));
  EXPECT_THAT(text, HasSubstr("[rank 3] a warning"));
  const std::string file = ReadAll(directory / "logs/rank-3.log");
  EXPECT_THAT(file, HasSubstr("[rank 3] an info\n"));
  EXPECT_THAT(StderrOf(0, 4, directory / "logs"), HasSubstr("[rank 0] an info\n"));
}

}  // namespace
}  // namespace dtrain::report
