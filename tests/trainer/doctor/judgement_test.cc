// Verdicts on the facts of machines that are not at hand. tests/integration/test_doctor.py tests the output of real
// runs.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <vector>

#include "tests/temporary_folder.h"
#include "trainer/doctor/doctor.h"
#include "trainer/errors.h"

namespace dtrain::doctor {
namespace {

using testing::AllOf;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMiB = 1 << 20;

auto IsOk() { return AllOf(Field(&Finding::verdict, Verdict::kOk), Field(&Finding::remedy, "")); }
auto Warns(const std::string& what) {
  return AllOf(Field(&Finding::verdict, Verdict::kWarning), Field(&Finding::what, HasSubstr(what)),
               Field(&Finding::remedy, Not("")));
}
auto Fails(ExitCode code, const std::string& what) {
  return AllOf(Field(&Finding::verdict, Verdict::kFailed), Field(&Finding::code, code),
               Field(&Finding::what, HasSubstr(what)));
}

TEST(Finding, AnErrorIsAFailureAndTheFirstOneCounts) {
  const Finding found = Tried("disk", []() -> Finding { throw StorageError("it is full", "free some"); });
  EXPECT_THAT(found, Fails(ExitCode::kStorage, "it is full"));
  EXPECT_EQ(found.remedy, "free some");
  testing::internal::CaptureStdout();
  Findings findings(/*as_json=*/false, /*rank=*/1, /*world_size=*/2);
  findings.Say(Ok("device", "the\nCPU"));
  EXPECT_EQ(findings.code(), ExitCode::kDone);
  findings.Say(Warning("a", "b", "c"));
  EXPECT_EQ(findings.code(), ExitCode::kDone);
  findings.Say(found);
  findings.Say(Failed("data", ExitCode::kData, "none", ""));
  EXPECT_EQ(findings.code(), ExitCode::kStorage);
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "[rank 1] ok       device         the\\nCPU\n[rank 1] warning  a              b; c\n"
            "[rank 1] failed   disk           it is full; free some\n[rank 1] failed   data           none\n");
}

TEST(Finding, AsAnObject) {
  testing::internal::CaptureStdout();
  Findings findings(/*as_json=*/true, /*rank=*/0, /*world_size=*/1);
  findings.Say(Failed("data", ExitCode::kData, "none", "get some"));
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr(R"({"check":"data","verdict":"failed","what":"none","remedy":"get some","rank":0,)"),
                    HasSubstr(R"("exit_code":3})")));
}

launch::Launch TwoMachines() {
  launch::Launch launch;
  launch.launcher = {.name = "flags", .is_one = true};
  launch.world_size = launch.nnodes = 2;
  launch.master_addr = "node0";
  launch.master_port = 29500;
  return launch;
}

TEST(JudgeAddress, MustBeReachedFromOtherMachines) {
  launch::Launch launch = TwoMachines();
  EXPECT_THAT(JudgeAddress(launch, {{"10.0.0.1"}, ""}), IsOk());
  EXPECT_THAT(JudgeAddress(launch, {{"127.0.1.1", "10.0.0.1"}, ""}), IsOk());
  EXPECT_THAT(JudgeAddress(launch, {{"127.0.1.1"}, ""}), Warns("only this machine"));
  EXPECT_THAT(JudgeAddress(launch, {{}, "no such name"}), Fails(ExitCode::kPeerLost, "'node0' does not resolve: no"));
  launch.nnodes = 1;
  EXPECT_THAT(JudgeAddress(launch, {{"127.0.0.1"}, ""}), IsOk());
  launch.master_addr = "";
  EXPECT_THAT(JudgeAddress(launch, {}), IsOk());
  EXPECT_THAT(Resolve("127.0.0.1").addresses, testing::Contains("127.0.0.1"));
  EXPECT_NE(Resolve("no-such-host.invalid").reason, "");
}

TEST(JudgeToken, IsMissedWhereStrangersCanCome) {
  launch::Launch launch = TwoMachines();
  EXPECT_THAT(JudgeToken(launch), Warns("anyone who can reach rank 0's port"));
  launch.token = "a secret word";
  EXPECT_THAT(JudgeToken(launch), IsOk());
  EXPECT_THAT(JudgeToken(launch).what, Not(HasSubstr("secret")));
  launch.token = "";
  launch.master_addr = "127.0.0.1";
  EXPECT_THAT(JudgeToken(launch), IsOk());
  launch = TwoMachines();
  launch.agent_store = true;
  EXPECT_THAT(JudgeToken(launch), IsOk());
  EXPECT_THAT(JudgeToken({}), IsOk());
}

TEST(JudgeClock, SecondsInEitherDirection) {
  EXPECT_THAT(JudgeClock(-4.9), IsOk());
  EXPECT_THAT(JudgeClock(-7.25), Warns("7.2 s from rank 0's"));
  EXPECT_THAT(JudgeClock(7), Warns("7.0 s"));
}

TEST(JudgeThreads, EachNeedsACore) {
  const Threads fits{.machine_cores = 8, .available_cores = 4, .local_ranks = 2, .compute_threads = 2, .workers = 4};
  EXPECT_THAT(JudgeThreads(fits), IsOk());
  Threads threads = fits;
  threads.workers = 5;
  EXPECT_THAT(JudgeThreads(threads), Warns("5 workers, on 4 of 8 cores"));
  threads = fits;
  threads.compute_threads = 3;
  EXPECT_THAT(JudgeThreads(threads), Warns("3 threads to compute"));
  threads.local_ranks = 5;
  EXPECT_THAT(JudgeThreads(threads), Warns("5 local ranks"));
}

TEST(JudgeLimits, OfFilesAndMemory) {
  EXPECT_THAT(JudgeOpenFiles(1028, 1), IsOk());
  EXPECT_THAT(JudgeOpenFiles(1027, 1), Warns("1027 may be open"));
  EXPECT_THAT(JudgeOpenFiles(RLIM_INFINITY, 1000), IsOk());
  EXPECT_THAT(JudgeLockedMemory(8 * kMiB, /*has_rdma=*/false), IsOk());
  EXPECT_THAT(JudgeLockedMemory(8 * kMiB, /*has_rdma=*/true), Warns("8 MiB at most"));
  EXPECT_THAT(JudgeLockedMemory(RLIM_INFINITY, /*has_rdma=*/true), IsOk());
  EXPECT_THAT(JudgeSharedMemory(64 * kMiB, 8, /*on_gpus=*/true), Warns("64 MiB free"));
  EXPECT_THAT(JudgeSharedMemory(1024 * kMiB, 8, /*on_gpus=*/true), IsOk());
  EXPECT_THAT(JudgeSharedMemory(64 * kMiB, 8, /*on_gpus=*/false), IsOk());
  EXPECT_THAT(JudgeSharedMemory(64 * kMiB, 1, /*on_gpus=*/true), IsOk());
  EXPECT_THAT(JudgeSharedMemory(-1, 1, /*on_gpus=*/false), Warns("no /dev/shm"));
}

TEST(JudgeDevice, DriverBuildAndGpu) {
  device::GpuFacts good;
  good.driver_version = 13000;
  good.runtime_version = 12040;
  good.gpus = {{"H100", 9, 0, "0000:17:00.0", ""}};
  good.architectures = "90";
  const device::GpuSigns files{.in_machine = true, .built_with_cuda = true};
  EXPECT_THAT(JudgeDevice(good, {}, "auto", files),
              AllOf(IsOk(), Field(&Finding::what, HasSubstr("driver is for CUDA 13.0, LibTorch for 12.4"))));
  device::GpuFacts old = good;
  old.gpus.clear();
  old.error = "cudaErrorInsufficientDriver";
  EXPECT_THAT(JudgeDevice(old, {}, "auto", files), Fails(ExitCode::kUsage, "the driver is too old"));
  EXPECT_THAT(JudgeDevice(good, {.local_rank = 1, .local_world_size = 2}, "auto", files),
              Fails(ExitCode::kUsage, "local rank 1 of 2 has no GPU"));
  EXPECT_THAT(JudgeDevice({}, {}, "auto", {}), IsOk());
  EXPECT_THAT(JudgeDevice({}, {}, "auto", {.in_machine = true, .built_with_cuda = false}),
              Warns("this build does not support the GPU"));
  EXPECT_THAT(JudgeDevice({}, {}, "auto", files), Warns("may not use"));
  EXPECT_THAT(JudgeDevice({}, {}, "gloo", files), IsOk());
}

TEST(JudgeNetwork, NcclAndEfa) {
  EXPECT_EQ(JudgeNccl(22907).what, "2.29.7");
  EXPECT_THAT(JudgeNccl(0), Fails(ExitCode::kUsage, "not found"));
  EfaFacts facts;
  EXPECT_THAT(JudgeEfa(facts, 2), IsOk());
  facts.adapters = 4;
  EXPECT_THAT(JudgeEfa(facts, 1), IsOk());
  EXPECT_THAT(JudgeEfa(facts, 2), Warns("4 adapters, but there is no fi_info"));
  facts.has_fi_info = true;
  EXPECT_THAT(JudgeEfa(facts, 2), Warns("finds no provider"));
  facts.provider_works = true;
  EXPECT_THAT(JudgeEfa(facts, 2), Warns("NCCL has no plugin"));
  facts.has_plugin = true;
  EXPECT_THAT(JudgeEfa(facts, 2), IsOk());
}

TEST(JudgeDisk, SpaceAndSpeed) {
  DiskFacts facts{.folder = "/x", .free_bytes = int64_t{3} << 30, .bytes_per_second = 1e8};
  EXPECT_THAT(JudgeDisk(facts), AllOf(IsOk(), Field(&Finding::what, "/x: 3.0 GiB free, 100 MB/s written and synced")));
  facts.bytes_per_second = 1e7;
  EXPECT_THAT(JudgeDisk(facts), Warns("10 MB/s"));
  facts.free_bytes = int64_t{1} << 30;
  EXPECT_THAT(JudgeDisk(facts), Warns("1.0 GiB free"));
}

TEST(MeasureDisk, LeavesNothingAndMakesNoFolder) {
  const TemporaryFolder folder;
  const DiskFacts facts = MeasureDisk(folder / "deep" / "run");
  EXPECT_EQ(facts.folder, folder.path());
  EXPECT_GT(facts.free_bytes, 0);
  EXPECT_GT(facts.bytes_per_second, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  folder.Write("file", "");
  EXPECT_THROW(MeasureDisk(folder / "file"), StorageError);
}

TEST(JudgeReading, BadRecordsAndSlowStorage) {
  ReadFacts facts{.split = "train", .records = 1000, .tried = 250, .bytes = 2.5e6, .read_seconds = 0.25};
  EXPECT_THAT(JudgeReading(facts, 0.01),
              AllOf(IsOk(), Field(&Finding::what, HasSubstr("250 of 1000 records read, 1.00 ms and 10.0 KB each"))));
  facts.read_seconds = 10;
  EXPECT_THAT(JudgeReading(facts, 0.01), Warns("40.00 ms"));
  facts.bad = 2;
  facts.first_bad = "a.jpg: damaged";
  EXPECT_THAT(JudgeReading(facts, 0.01), Warns("2 cannot be used, the first: a.jpg: damaged"));
  facts.bad = 3;
  EXPECT_THAT(JudgeReading(facts, 0.01), Fails(ExitCode::kData, "3 cannot be used"));
  EXPECT_THAT(JudgeReading(facts, 0), Fails(ExitCode::kData, "3 cannot be used"));
}

}  // namespace
}  // namespace dtrain::doctor
