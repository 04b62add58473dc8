#include "trainer/device/device.h"

#include <ATen/Context.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <utility>

#include "tests/message_of.h"
#include "trainer/device/device_choice.h"

namespace dtrain::device {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class AlgorithmsTest : public testing::Test {
 protected:
  void SetUp() override { unsetenv("CUBLAS_WORKSPACE_CONFIG"); }
  void TearDown() override {
    ChooseAlgorithms(false);
    unsetenv("CUBLAS_WORKSPACE_CONFIG");
  }
  const at::Context& context_ = at::globalContext();
};

TEST_F(AlgorithmsTest, DeterministicOnesAreNotChosenByTheClock) {
  ChooseAlgorithms(true);
  EXPECT_FALSE(context_.benchmarkCuDNN());
  EXPECT_TRUE(context_.deterministicCuDNN());
  EXPECT_TRUE(context_.deterministicAlgorithms());
  EXPECT_FALSE(context_.deterministicAlgorithmsWarnOnly());  // else attention on a GPU would add in varying order
  EXPECT_FALSE(context_.deterministicFillUninitializedMemory());
  EXPECT_STREQ(getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
}

TEST_F(AlgorithmsTest, OthersRunWhereAModelNeedsThemOrNobodyAsks) {
  ChooseAlgorithms(true, /*tolerates_others=*/true);
  EXPECT_TRUE(context_.deterministicAlgorithms());
  EXPECT_TRUE(context_.deterministicAlgorithmsWarnOnly());
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
  ChooseAlgorithms(false);
  EXPECT_FALSE(context_.benchmarkCuDNN());
  EXPECT_FALSE(context_.deterministicCuDNN());
  EXPECT_FALSE(context_.deterministicAlgorithms());
  EXPECT_EQ(getenv("CUBLAS_WORKSPACE_CONFIG"), nullptr);
}

TEST_F(AlgorithmsTest, WhatTheUserHasSetForCublasStaysIfItIsDeterministic) {
  for (const auto& [given, taken] : {std::pair{":16:8", ":16:8"}, {":4096:2:16:8", ":4096:8"}}) {
    setenv("CUBLAS_WORKSPACE_CONFIG", given, 1);
    ChooseAlgorithms(true);
    EXPECT_STREQ(getenv("CUBLAS_WORKSPACE_CONFIG"), taken);
  }
}

constexpr const char* kDefaultArchitectures = "75-real,80-real,86-real,89-real,90";

GpuFacts Machine(int gpus, int major = 9, int minor = 0) {
  GpuFacts facts;
  facts.driver_version = facts.runtime_version = 13000;
  facts.architectures = kDefaultArchitectures;
  for (int i = 0; i < gpus; ++i) {
    facts.gpus.push_back(
        {"GPU " + std::to_string(i), major, minor, "0000:0" + std::to_string(i) + ":00.0", std::to_string(i)});
  }
  return facts;
}

GpuFacts Refusing(const std::string& error, int driver_version) {
  GpuFacts facts = Machine(0);
  facts.driver_version = driver_version;
  facts.error = error;
  facts.error_text = "CUDA's words";
  return facts;
}

std::string WhyNot(const GpuFacts& facts, const RankPlace& place, const std::string& backend,
                   const std::string& precision = "fp32") {
  return MessageAndHint([&] { ChooseGpu(facts, place, backend, precision); });
}

TEST(ChooseGpu, TheLocalRankCounts) {
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(ChooseGpu(Machine(4), {rank, 4}, "auto"), rank);
  EXPECT_EQ(ChooseGpu(Machine(4), {3, 4}, "nccl"), 3);
  const RankPlace shares{.local_rank = 5, .local_world_size = 6, .may_share_gpus = true};
  EXPECT_EQ(ChooseGpu(Machine(4), shares, "auto"), 1);
  EXPECT_EQ(ChooseGpu(Machine(0), shares, "auto"), std::nullopt);
}

TEST(ChooseGpu, TheCpuWhereThereIsNoGpuOrNoneIsWanted) {
  EXPECT_EQ(ChooseGpu(Machine(0), {0, 1}, "auto"), std::nullopt);
  EXPECT_EQ(ChooseGpu(Machine(4), {0, 1}, "gloo"), std::nullopt);
  EXPECT_EQ(ChooseGpu(Refusing("cudaErrorNoDevice", 13000), {0, 1}, "auto"), std::nullopt);
  EXPECT_EQ(ChooseGpu(Refusing("cudaErrorInsufficientDriver", 12000), {0, 1}, "gloo"), std::nullopt);
}

TEST(ChooseGpu, MoreLocalRanksThanGpus) {
  EXPECT_THAT(WhyNot(Machine(2), {2, 4}, "auto"),
              AllOf(HasSubstr("local rank 2 of 4 has no GPU"), HasSubstr("2 GPUs"), HasSubstr("--nproc_per_node")));
  EXPECT_THAT(WhyNot(Machine(1), {1, 2}, "auto"), HasSubstr("1 GPU that"));
  EXPECT_THAT(WhyNot(Machine(0), {0, 1}, "nccl"), AllOf(HasSubstr("no GPU that"), HasSubstr("--backend=gloo")));
}

TEST(ChooseGpu, ALauncherThatShowsEachRankItsOwnGpu) {
  EXPECT_EQ(ChooseGpu(Machine(1), {3, 4, /*sees_its_own_gpu_only=*/true}, "auto"), 0);
  EXPECT_EQ(ChooseGpu(Machine(4), {3, 4, /*sees_its_own_gpu_only=*/false}, "auto"), 3);
}

TEST(ChooseGpu, ADriverTooOldForCuda) {
  EXPECT_THAT(WhyNot(Refusing("cudaErrorInsufficientDriver", 12040), {0, 1}, "auto"),
              AllOf(HasSubstr("CUDA 13.0"), HasSubstr("it is for CUDA 12.4,"), HasSubstr("cudaErrorInsufficientDriver"),
                    HasSubstr("update the driver")));
  EXPECT_THAT(WhyNot(Refusing("cudaErrorInsufficientDriver", 0), {0, 1}, "auto"),
              HasSubstr("no NVIDIA driver answers"));
  EXPECT_THAT(WhyNot(Refusing("cudaErrorSystemNotReady", 13000), {0, 1}, "auto"),
              AllOf(HasSubstr("CUDA's words (cudaErrorSystemNotReady)"), HasSubstr("nvidia-smi")));
}

TEST(ChooseGpu, AGpuTooOldForTheBuild) {
  EXPECT_THAT(WhyNot(Machine(1, 7, 0), {0, 1}, "auto"),
              AllOf(HasSubstr("GPU 0 (compute capability 7.0) is too old"), HasSubstr(kDefaultArchitectures),
                    HasSubstr("DTRAIN_CUDA_ARCHITECTURES")));
  GpuFacts with_volta = Machine(1, 7, 0);
  with_volta.architectures = "70-real,80";
  EXPECT_EQ(ChooseGpu(with_volta, {0, 1}, "auto"), 0);
}

TEST(ChooseGpu, AGpuTooOldForBf16) {
  EXPECT_THAT(WhyNot(Machine(1, 7, 5), {0, 1}, "auto", "bf16"),
              AllOf(HasSubstr("bf16 needs"), HasSubstr("GPU 0 has 7.5"), HasSubstr("--precision=fp16")));
  EXPECT_EQ(ChooseGpu(Machine(1, 8, 0), {0, 1}, "auto", "bf16"), 0);
  for (const char* precision : {"fp16", "fp32"}) EXPECT_EQ(ChooseGpu(Machine(1, 7, 5), {0, 1}, "auto", precision), 0);
  EXPECT_EQ(ChooseGpu(Machine(1, 7, 5), {0, 1}, "gloo", "bf16"), std::nullopt);
}

TEST(CountUsableGpus, TheDriversCountAsFarAsTheyAreVisible) {
  EXPECT_EQ(CountUsableGpus(2, /*device_files=*/0, nullptr), 2);  // WSL2 has no device files
  EXPECT_EQ(CountUsableGpus(std::nullopt, 4, nullptr), 4);        // a container without the driver's library
  EXPECT_EQ(CountUsableGpus(0, 4, nullptr), 0);
  const std::pair<const char*, int> cases[] = {{"", 0},       {"1", 1},       {"0,2", 2},
                                               {"0,-1,2", 1}, {"0,1,2,3", 3}, {"GPU-a", 1}};
  for (const auto& [visible, count] : cases) EXPECT_EQ(CountUsableGpus(3, 0, visible), count) << visible;
}

TEST(CanRunOn, MachineCodeWithinAMajorVersionPortableCodeEverywhereAbove) {
  const struct {
    const char* architectures;
    int major, minor;
    bool can;
  } cases[] = {
      {"75-real", 7, 5, true},     {"75-real", 7, 0, false},    {"75-real", 8, 0, false},  {"80-real", 8, 6, true},
      {"86-real", 8, 0, false},    {"80", 9, 0, true},          {"90", 12, 0, true},       {"90-real", 10, 0, false},
      {"90-virtual", 9, 0, true},  {"90-virtual", 8, 9, false}, {"100-real", 10, 3, true}, {"", 9, 0, false},
      {"75-real,90", 8, 6, false}, {"75-real,90", 12, 1, true},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(CanRunOn(c.architectures, c.major, c.minor), c.can) << c.architectures << " " << c.major << c.minor;
  }
}

TEST(SharedGpu, NamesTheRanksAndTheGpu) {
  const std::vector<RankGpu> ranks = {{0, "node1", "a", "0000:17:00.0", "e1"},
                                      {1, "node1", "a", "0000:18:00.0", "e2"},
                                      {2, "node2", "b", "0000:17:00.0", "e1"},
                                      {3, "node1", "a", "0000:18:00.0", "e2"},
                                      {4, "node1", "a", "0000:18:00.0", "e3"}};
  EXPECT_EQ(SharedGpu(ranks), "ranks 1 and 3 compute on the same GPU 0000:18:00.0 of node1");
  EXPECT_EQ(SharedGpu({ranks[0], ranks[1], ranks[2], ranks[4]}), "");  // the last one is a part of ranks[1]'s (MIG)
  EXPECT_EQ(SharedGpu({{0, "node1", "a", "", ""}, {1, "node1", "a", "", ""}}), "");  // ranks may share a CPU
}

}  // namespace
}  // namespace dtrain::device
