#include "trainer/failure.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>
#include <thread>

#include "tests/temporary_folder.h"
#include "trainer/errors.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

template <typename E>
E Torch(const std::string& message) {
  return E(c10::SourceLocation{"f", "file.cpp", 1}, message);
}

TEST(FailureOf, AFullGpuInTheWordsOfEachLibrary) {
  const std::runtime_error errors[] = {
      std::runtime_error("CUDA error: out of memory"),
      std::runtime_error("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
      std::runtime_error("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
  };
  for (const auto& error : errors) {
    EXPECT_EQ(FailureOf(error).code, ExitCode::kOutOfMemory) << error.what();
    EXPECT_THAT(FailureOf(error).hint, AllOf(HasSubstr("lower --batch_size"), HasSubstr("--precision=bf16")));
  }
  EXPECT_EQ(FailureOf(Torch<c10::OutOfMemoryError>("CUDA out of memory. Tried to allocate 2 GiB")).code,
            ExitCode::kOutOfMemory);
  EXPECT_EQ(FailureOf(Torch<c10::DistBackendError>("NCCL error: Cuda failure 2 'out of memory'")).code,
            ExitCode::kOutOfMemory);
}

TEST(FailureOf, AFullHostIsNotToldOfTheGpu) {
  const report::Failure failure = FailureOf(std::bad_alloc());
  EXPECT_EQ(failure.code, ExitCode::kOutOfMemory);
  EXPECT_THAT(failure.hint, AllOf(HasSubstr("lower --batch_size"), testing::Not(HasSubstr("GPU"))));
}

TEST(FailureOf, WhatNcclSaysIsNoLostRank) {
  const std::string prefix =
      "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled system error (run with "
      "NCCL_DEBUG=INFO for details), NCCL version 2.28.9\n";
  const report::Failure failure =
      FailureOf(Torch<c10::DistBackendError>(
          prefix + "ncclSystemError: System call (e.g. socket, malloc) or external library call "
                   "failed or device error. \nLast error:\nBootstrap : no socket interface found\n"));
  EXPECT_EQ(failure.code, ExitCode::kPeerLost);
  EXPECT_THAT(failure.message, StartsWith("NCCL failed: unhandled system error"));
  EXPECT_THAT(failure.message, testing::EndsWith("Last error:; Bootstrap : no socket interface found"));
  EXPECT_THAT(failure.message, testing::Not(HasSubstr("another rank was lost")));
  EXPECT_THAT(failure.hint, HasSubstr("NCCL_SOCKET_IFNAME"));

  const report::Failure lost = FailureOf(Torch<c10::DistBackendError>(
      prefix +
      "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."));
  EXPECT_EQ(lost.code, ExitCode::kPeerLost);
  EXPECT_THAT(lost.message, HasSubstr("another rank was lost"));
}

TEST(FailureOf, AFullHostInTheWordsOfEachLibrary) {
  const std::string of_torch =
      "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory";
  const std::string of_mapping = "unable to mmap 4096 bytes from file <model>: Cannot allocate memory (12)";
  EXPECT_EQ(FailureOf(Torch<c10::Error>(of_torch)).code, ExitCode::kOutOfMemory);
  EXPECT_EQ(FailureOf(Torch<c10::Error>(of_mapping)).code, ExitCode::kOutOfMemory);
  EXPECT_EQ(FailureOf(std::runtime_error("(-4:Insufficient memory) Failed to allocate 99 bytes")).code,
            ExitCode::kOutOfMemory);
  EXPECT_EQ(FailureOf(std::system_error(ENOMEM, std::generic_category())).code, ExitCode::kOutOfMemory);
}

TEST(FailureOf, AThreadThatDoesNotStart) {
  const report::Failure failure = FailureOf(std::system_error(EAGAIN, std::generic_category()));
  EXPECT_EQ(failure.code, ExitCode::kOutOfMemory);
  EXPECT_THAT(failure.message, HasSubstr("a thread could not be started"));
  EXPECT_THAT(failure.hint, AllOf(HasSubstr("--workers"), HasSubstr("ulimit -u")));
}

TEST(FailureOf, FilesOfTheSystem) {
  const auto link =
      std::filesystem::filesystem_error("status", "a", std::make_error_code(std::errc::filename_too_long));
  EXPECT_EQ(FailureOf(link).code, ExitCode::kStorage);
}

TEST(FailureOf, OthersByTheirKind) {
  EXPECT_EQ(FailureOf(Torch<c10::DistBackendError>("Watchdog caught collective operation timeout")).code,
            ExitCode::kPeerLost);
  EXPECT_EQ(FailureOf(std::runtime_error("CUDA error: no kernel image is available for execution on the device")).code,
            ExitCode::kUsage);
  EXPECT_EQ(FailureOf(UsageError("what", "hint")).hint, "hint");
  EXPECT_EQ(FailureOf(std::runtime_error("index 3 is out of range")).code, ExitCode::kInternal);
}

int Report(const std::exception& error) {
  const report::Failure failure = FailureOf(error);
  report::ReportFailure(failure, "");
  return static_cast<int>(failure.code);
}

TEST(RunProgram, WhatAThreadThrowsIsReportedAndDecidesTheExitCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fail_in_a_thread = [] {
    std::thread([] { throw Torch<c10::DistBackendError>("NCCL watchdog: timeout"); }).join();
    return 0;
  };
  EXPECT_EXIT(_exit(RunProgram(fail_in_a_thread, Report)), testing::ExitedWithCode(4),
              "peer_lost.*NCCL watchdog: timeout");
}

TEST(RunProgram, ALibrarysExitIsAFailureAndItsErrorHasNoStackTrace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto exit_after_an_error = []() -> int {
    try {
      TORCH_CHECK(false, "a broken connection");
    } catch (const c10::Error& error) {
      if (std::string(error.what()).find("frame #") != std::string::npos) _exit(1);
    }
    exit(1);
  };
  EXPECT_EXIT(RunProgram(exit_after_an_error, Report), testing::ExitedWithCode(7), "a library has ended the process");
}

std::string ReportOf(const launch::RankDeath& first, const std::filesystem::path& run_directory, bool as_json = false) {
  testing::internal::CaptureStderr();
  ReportAttempt({.cause = first, .last_step = 3}, /*world_size=*/4, run_directory, as_json);
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
  EXPECT_THAT(ReportOf({.rank = 2, .exit_code = 4, .signal = 9}, "", /*as_json=*/true),
              StartsWith("{\"exit_code\":4,"));
}

}  // namespace
}  // namespace dtrain
