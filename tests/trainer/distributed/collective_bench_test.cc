// The formulas are those of nccl-tests; the collectives run on ranks in threads.
#include "trainer/distributed/collective_bench.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/trainer/distributed/ranks_in_threads.h"

namespace dtrain::distributed {
namespace {

TEST(CollectiveBench, CountsEveryCorruptedElement) {
  const at::Tensor expected = at::arange(10, at::kFloat);
  at::Tensor result = expected.clone();
  EXPECT_EQ(CountWrong(result, expected), 0);
  result[3] = 2.999;
  result[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(CountWrong(result, expected), 2);
}

TEST(CollectiveBench, BusBandwidthIsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor("all_reduce", 4), 1.5);
  EXPECT_DOUBLE_EQ(BusFactor("broadcast", 4), 1);
  EXPECT_DOUBLE_EQ(BusFactor("all_gather", 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor("reduce_scatter", 8), 0.875);
}

TEST(CollectiveBench, AllAreRightOnThreeRanks) {
  const FreePort port;
  RunRanks(3, [&](int rank) {
    Rendezvous rendezvous({.launch = LaunchOf(rank, 3, port.port), .listen_fd = rank == 0 ? port.fd : -1}, {});
    rendezvous.WaitForAll("{}");
    Communicator communicator(rendezvous, at::kCPU, kTimeoutSeconds);
    const auto result = BenchCollectives(communicator, at::kCPU, {.max_bytes = 1024, .warmup = 1, .iterations = 2});
    EXPECT_EQ(result["out_of_bounds"], 0) << result.dump(1);
    EXPECT_EQ(result["results"].size(), 4U * 8U);  // 8 B to 1 KiB
    EXPECT_GT(result["average_bus_bandwidth"].get<double>(), 0);
    rendezvous.control()->Leave();
  });
}

}  // namespace
}  // namespace dtrain::distributed
