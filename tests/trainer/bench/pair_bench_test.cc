// The pairing and the judgement are arithmetic; the measurement runs on ranks in threads.
#include "trainer/bench/benches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/trainer/distributed/ranks_in_threads.h"

namespace dtrain::bench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

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
