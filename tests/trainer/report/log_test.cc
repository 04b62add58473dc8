// Each case in a process of its own: logging is set up once per process.
#include "trainer/report/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/temporary_folder.h"

namespace dtrain::report {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// What the three severities look like on stderr.
std::string StderrOf(int rank, int world_size, const std::string& log_directory) {
  ::testing::internal::CaptureStderr();
  const pid_t child = ::fork();
  if (child == 0) {
    InitializeLogging(rank, world_size, log_directory);
    LogInfo("an info");
    LogWarning("a warning");
    LogError("an error");
    LogWarning("a name with \x1b[2J\nINFO a forged line");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  return ::testing::internal::GetCapturedStderr();
}

TEST(LogTest, ASingleRankHasNoPrefix) {
  const std::string text = StderrOf(0, 1, "");
  EXPECT_THAT(text, ContainsRegex("^INFO 20[0-9-]+ [0-9]+:[0-9]+:[0-9]+.* an info\nWARNING .* a warning\nERROR "));
  EXPECT_THAT(text, Not(HasSubstr("rank")));
}

TEST(LogTest, WordsOfOthersAreShownEscaped) {
  EXPECT_THAT(StderrOf(0, 1, ""), HasSubstr("a name with \\x1b[2J\\nINFO a forged line\n"));
}

TEST(LogTest, RanksArePrefixed) { EXPECT_THAT(StderrOf(3, 4, ""), HasSubstr(" [rank 3] an info\n")); }

TEST(LogTest, TheFileHasEverythingAndOtherRanksAreQuiet) {
  TemporaryFolder directory;
  const std::string text = StderrOf(3, 4, directory / "logs");
  EXPECT_THAT(text, Not(HasSubstr("an info")));
  EXPECT_THAT(text, HasSubstr("[rank 3] a warning"));
  const std::string file = ReadAll(directory / "logs/rank-3.log");
  EXPECT_THAT(file, HasSubstr("[rank 3] an info\n"));
  EXPECT_THAT(file, HasSubstr("[rank 3] an error\n"));
  EXPECT_THAT(StderrOf(0, 4, directory / "logs"), HasSubstr("[rank 0] an info\n"));
}

}  // namespace
}  // namespace dtrain::report
