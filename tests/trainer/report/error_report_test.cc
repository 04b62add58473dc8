#include "trainer/report/error_report.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/temporary_folder.h"

namespace dtrain::report {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ErrorReportTest : public ::testing::Test {
 protected:
  ErrorReportTest() { ::unsetenv("TORCHELASTIC_ERROR_FILE"); }
  ~ErrorReportTest() override { ::unsetenv("TORCHELASTIC_ERROR_FILE"); }

  nlohmann::json Read(const std::string& name) { return nlohmann::json::parse(ReadAll(run_ / name)); }
  void Report(ExitCode code, int rank, const std::string& message = "it broke") {
    ReportFailure({code, message, "do this", rank, 4, 120}, run_.path());
  }

  TemporaryFolder run_;
};

TEST_F(ErrorReportTest, SaysWhatWhereAndWhatToDo) {
  ::setenv("TORCHELASTIC_ERROR_FILE", (run_ / "torchrun.json").c_str(), 1);
  ::testing::internal::CaptureStderr();
  Report(ExitCode::kStorage, 3);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "\ndtrain failed (storage, exit code 5) on rank 3 of 4 after step 120: it broke\n  what to do: do this\n");
  const nlohmann::json error = Read("error.json");
  EXPECT_EQ(error.at("exit_code"), 5);
  EXPECT_EQ(error.at("kind"), "storage");
  EXPECT_EQ(error.at("message"), "it broke");
  EXPECT_EQ(error.at("hint"), "do this");
  EXPECT_EQ(error.at("rank"), 3);
  EXPECT_EQ(error.at("step"), 120);
  EXPECT_EQ(error.at("pid"), ::getpid());
  EXPECT_TRUE(error.at("host").is_string());
  EXPECT_GT(error.at("time"), 1700000000);
  EXPECT_EQ(error.size(), 9u);

  const nlohmann::json torchrun = Read("torchrun.json");
  EXPECT_EQ(torchrun.at("message").at("message"), "it broke");
  EXPECT_GT(std::stoll(torchrun.at("message").at("extraInfo").at("timestamp").get<std::string>()), 1700000000);
  EXPECT_THAT(torchrun.at("message").at("extraInfo").at("py_callstack").get<std::string>(), HasSubstr("rank 3"));
  // torchrun takes the earliest failure for the cause.
  Report(ExitCode::kPeerLost, 1);
  EXPECT_GT(Read("torchrun.json").at("message").at("extraInfo").at("timestamp"),
            torchrun.at("message").at("extraInfo").at("timestamp"));
}

TEST_F(ErrorReportTest, AsALineOfJson) {
  ::testing::internal::CaptureStderr();
  ReportFailure({.code = ExitCode::kUsage, .message = "a\nb\xff", .hint = "do this", .as_json = true}, "");
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find('\n'), said.size() - 1);
  const auto json = nlohmann::json::parse(said);
  EXPECT_EQ(json.at("exit_code"), 2);
  EXPECT_EQ(json.at("hint"), "do this");
  EXPECT_EQ(json.size(), 9u);
}

TEST_F(ErrorReportTest, ShowsWordsOfOthersEscaped) {
  ::testing::internal::CaptureStderr();
  Report(ExitCode::kData, 3, "a\x1b[2J.jpg\ndtrain: all is well: not an image");
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("a\\x1b[2J.jpg\\ndtrain: all is well: not an image\n"));
  // Mistakes of the command line keep their line feeds, one mistake per line.
  ::testing::internal::CaptureStderr();
  Report(ExitCode::kUsage, 3, "--lr: expected a number\n--model=\x9b: unknown");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("a number\n--model=\\x9b: unknown\n"));
}

TEST_F(ErrorReportTest, TheFirstRootCauseHasTheFile) {
  Report(ExitCode::kPeerLost, 0);
  Report(ExitCode::kPeerLost, 1);
  EXPECT_EQ(Read("error.json").at("rank"), 0);
  Report(ExitCode::kOutOfMemory, 3);
  Report(ExitCode::kPeerLost, 1);
  Report(ExitCode::kStorage, 2);
  EXPECT_EQ(Read("error.json").at("rank"), 3);
  EXPECT_EQ(Read("error.rank0.json").at("exit_code"), 4);
  EXPECT_EQ(Read("error.rank1.json").at("rank"), 1);
  EXPECT_EQ(Read("error.rank2.json").at("exit_code"), 5);
}

TEST_F(ErrorReportTest, APreemptionIsNoFailureAndAnEarlierAttemptIsForgotten) {
  Report(ExitCode::kPreempted, 0);
  EXPECT_TRUE(fs::is_empty(run_.path()));
  Report(ExitCode::kDiverged, 2);
  Report(ExitCode::kPeerLost, 0);
  WriteAll(run_ / "metrics.jsonl", "stays");
  RemoveErrorFiles(run_.path());
  EXPECT_FALSE(fs::exists(run_ / "error.json"));
  EXPECT_FALSE(fs::exists(run_ / "error.rank0.json"));
  EXPECT_TRUE(fs::exists(run_ / "metrics.jsonl"));
  RemoveErrorFiles(run_ / "none");
}

TEST_F(ErrorReportTest, SurvivesUnwritablePlacesAndBytesThatAreNoText) {
  ::setenv("TORCHELASTIC_ERROR_FILE", "/proc/none/file", 1);
  ReportFailure({ExitCode::kInternal, "\xff\xfe", "", 0, 1, std::nullopt}, "/proc/none");
  Report(ExitCode::kInternal, 0, "\xff");
  EXPECT_EQ(Read("error.json").at("exit_code"), 70);
}

}  // namespace
}  // namespace dtrain::report
