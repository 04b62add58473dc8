// The formulas are those of nccl-tests; the collectives run on ranks in threads.
#include "trainer/bench/benches.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/distributed/ranks_in_threads.h"

namespace dtrain::bench {
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

// Runs the bench on connected ranks and returns rank 0's result.
nlohmann::ordered_json BenchOn(int world_size, const CollectiveBenchOptions& options,
                               const std::function<void(int, at::Tensor&)>& before_check = {}) {
  nlohmann::ordered_json first;
  distributed::RunConnected(world_size, [&](int rank, distributed::Communicator& communicator) {
    CollectiveBenchOptions own = options;
    if (before_check) own.before_check = [&, rank](at::Tensor& result) { before_check(rank, result); };
    const auto result = BenchCollectives(communicator, at::kCPU, own);
    if (rank == 0) first = result;
  });
  return first;
}

// The defect changes one element of each result, on the last rank only.
TEST(CollectiveBench, AnElementThatIsWrongOnOneRankIsCounted) {
  for (const std::string& operation : CollectiveNames()) {
    testing::internal::CaptureStdout();
    const auto result =
        BenchOn(2, {.min_bytes = 64, .max_bytes = 128, .warmup = 0, .iterations = 1, .operation = operation},
                [](int rank, at::Tensor& received) {
                  if (rank == 1) received[received.numel() - 1] += 0.5;
                });
    EXPECT_THAT(testing::internal::GetCapturedStdout(), testing::HasSubstr("# Out of bounds values : 4 FAILED\n"));
    EXPECT_EQ(result["out_of_bounds"], 4) << operation;  // two sizes, out of place and in place
    EXPECT_EQ(result["results"][1]["in_place"]["wrong"], 1) << operation;
  }
}

// Sizes are those of the whole tensor. Counts are elements, of a rank's share if ranks have shares.
TEST(CollectiveBench, RowsAreThoseOfNcclTests) {
  testing::internal::CaptureStdout();
  const auto result = BenchOn(2, {.min_bytes = 64, .max_bytes = 64, .warmup = 0, .iterations = 1});
  testing::internal::GetCapturedStdout();
  const std::vector<std::tuple<std::string, int, std::string, int>> expected = {{"all_reduce", 16, "sum", -1},
                                                                                {"broadcast", 16, "none", 0},
                                                                                {"all_gather", 8, "none", -1},
                                                                                {"reduce_scatter", 8, "sum", -1}};
  ASSERT_EQ(result["results"].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto& row = result["results"][i];
    EXPECT_EQ(std::tuple(row["operation"].get<std::string>(), row["count"].get<int>(), row["redop"].get<std::string>(),
                         row["root"].get<int>()),
              expected[i]);
    EXPECT_EQ(row["bytes"], 64);
    const auto& measured = row["in_place"];
    EXPECT_NEAR(measured["algbw"].get<double>(), 64 / measured["microseconds"].get<double>() / 1e3, 1e-9);
    EXPECT_NEAR(measured["busbw"].get<double>(), measured["algbw"].get<double>() * BusFactor(row["operation"], 2),
                1e-9);
  }
}

}  // namespace
}  // namespace dtrain::bench
