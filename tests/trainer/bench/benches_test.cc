// The formulas are those of nccl-tests, and pairing and judgement are arithmetic; what is measured runs on ranks in
// threads.
#include "trainer/bench/benches.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "tests/trainer/distributed/ranks_in_threads.h"

#include <set>

namespace dtrain::bench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

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

TEST(PairBench, EachMachineMeetsBothNeighbours) {
  for (int machines = 2; machines < 8; ++machines) {
    std::vector<std::set<int>> met(static_cast<size_t>(machines));
    for (int round = 0; round < PairRounds(machines); ++round) {
      for (int machine = 0; machine < machines; ++machine) {
        const std::optional<int> partner = PartnerOf(machine, round, machines);
        if (!partner) continue;
        EXPECT_EQ(PartnerOf(*partner, round, machines), machine);
        met[machine].insert(*partner);
      }
    }
    for (int machine = 0; machine < machines; ++machine) {
      EXPECT_TRUE(met[machine].contains((machine + 1) % machines));
      EXPECT_TRUE(met[machine].contains((machine + machines - 1) % machines));
    }
  }
}

TEST(PairBench, TheSlowMachineIsTheOneThatIsSlowWithAll) {
  EXPECT_THAT(SlowMachines({40, 41, 12, 40}, 0), ElementsAre(2));
  EXPECT_THAT(SlowMachines({40, 41, 21, 40}, 0), IsEmpty());  // more than half of the median
  EXPECT_THAT(SlowMachines({40, 41, 21, 40}, 25), ElementsAre(2));
  EXPECT_THAT(SlowMachines({3, 3, 3, 3}, 25), IsEmpty());  // the whole network is slow: no machine's fault
  EXPECT_THAT(SlowMachines({3, 3, 1, 3}, 25), ElementsAre(2));
  EXPECT_THAT(SlowMachines({3, 40}, 25), IsEmpty());  // nobody knows which of two it is
  EXPECT_THAT(SlowMachines({40, 40, 0}, 0), ElementsAre(2));
}

// Three machines of two ranks each, in rank order; all are this one.
TEST(PairBench, MeasuresAllRanksOfAMachineTogether) {
  std::vector<std::vector<double>> found;
  distributed::RunConnected(6, [&](int rank, distributed::Communicator& communicator) {
    const launch::Launch place{.local_rank = rank % 2, .local_world_size = 2, .nnodes = 3, .node_rank = rank / 2};
    const auto own = BenchMachines(communicator, at::kCPU, place, {.bytes = 1 << 16});
    if (rank == 0) found = own;
  });
  ASSERT_EQ(found.size(), 3U);
  for (int machine = 0; machine < 3; ++machine) {
    ASSERT_EQ(found[machine].size(), 3U);
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(found[machine][round] > 0, PartnerOf(machine, round, 3).has_value());
    }
  }
}

}  // namespace
}  // namespace dtrain::bench
