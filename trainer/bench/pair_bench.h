// Measures the network between machines, two at a time, and finds a machine that is slow with whomever it is paired. A
// collective of all machines is as slow as the slowest, and does not show which one that is.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/distributed/communicator.h"
#include "trainer/modes/run.h"

namespace dtrain::bench {

// The first words of the file that a slow machine writes, by which it is known again and may be replaced.
inline constexpr char kSlowFileBeginning[] = "the network of machine ";

struct PairBenchOptions {
  int64_t bytes = int64_t{32} << 20;  // that a rank sends to its partner, and receives from it, in each call
  int64_t warmup = 1;
  int64_t iterations = 5;
  double least_gbyte = 0;      // GB/s of a machine in each direction; 0: machines are only compared with each other
  std::string slow_file = {};  // on a slow machine, the file that says so; empty: none
};

// In how many rounds each machine of a ring has been paired with both of its neighbours. Two machines: 1.
int PairRounds(int machines);

// The machine that `machine` is paired with in a round; none if it has to wait.
std::optional<int> PartnerOf(int machine, int round, int machines);

// Judges the best speeds (GB/s) of the machines: a machine is slow if it has less than half of their median, or less
// than `least_gbyte` where the median has as much. Of two machines nobody can say which one is slow, so none is. (A
// machine both of whose neighbours are slow seems to be so, too.)
std::vector<int> SlowMachines(const std::vector<double>& best, double least_gbyte);

// A collective. `place`: this rank's machine and its number there. Returns a row for each machine: its GB/s in one
// direction, all of its ranks together, in each round (0: it had no partner). Both directions are measured, in turn.
std::vector<std::vector<double>> BenchMachines(distributed::Communicator& communicator, at::Device device,
                                               const launch::Launch& place, const PairBenchOptions& options);

// dtrain_bench pairs, under every launcher that tells ranks their machines. A collective; rank 0 prints the table, with
// `json` also {"machines": [[GB/s of round 0, …], …], "slow": […]} on the last line. With one machine it does nothing.
// Throws PeerLostError on all ranks if a machine is slow, UsageError if the whole network is slower than `least_gbyte`.
void BenchPairs(const modes::RunContext& context, const PairBenchOptions& options, bool json);

}  // namespace dtrain::bench
