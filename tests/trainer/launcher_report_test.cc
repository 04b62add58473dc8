#include "trainer/launcher_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_folder.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string ReportOf(const launch::RankDeath& first, const std::filesystem::path& run_directory) {
  testing::internal::CaptureStderr();
  ReportAttempt({.cause = first, .last_step = 3}, /*world_size=*/4, run_directory);
  return testing::internal::GetCapturedStderr();
}

TEST(ReportAttempt, ShowsTheLogOfTheFirstRankAndBlamesNoVictim) {
  const TemporaryFolder run;
  std::filesystem::create_directory(run / "logs");
  WriteAll(run / "logs/rank-2.log", "the last words\n");
  EXPECT_THAT(ReportOf({.rank = 2, .exit_code = 3}, run / ""),
              AllOf(StartsWith("rank 2 failed first; the end of "), HasSubstr("  the last words\n")));
  EXPECT_THAT(ReportOf({.rank = 2, .exit_code = 4}, run / ""),
              AllOf(StartsWith("rank 2 has lost another rank; the end of "), HasSubstr("  the last words\n")));
  EXPECT_THAT(
      ReportOf({.rank = 2, .exit_code = 4, .signal = 9}, run / ""),
      AllOf(StartsWith("rank 2 failed first; "), HasSubstr("on rank 2 of 4 after step 3: the rank was killed")));
}

}  // namespace
}  // namespace dtrain
