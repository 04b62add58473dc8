// Measures the speed of collectives and checks their results. Prints the table that NVIDIA's nccl-tests print, so that
// the figures can be compared with published ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/distributed/communicator.h"
#include "trainer/modes/run.h"

namespace dtrain::bench {

struct CollectiveBenchOptions {
  int64_t min_bytes = 8;
  int64_t max_bytes = int64_t{32} << 20;  // sizes double from min_bytes up to this
  int64_t warmup = 3;                     // calls before the clock starts
  int64_t iterations = 10;                // calls timed
  std::string operation = "all";          // all_reduce, broadcast, all_gather, reduce_scatter or all of them
  std::function<void(at::Tensor&)> before_check = {};  // for tests: called with each result before it is checked
};

// all_reduce, broadcast, all_gather, reduce_scatter.
const std::vector<std::string>& CollectiveNames();

// Returns the number of elements that are not exactly the expected ones. NaN counts as wrong.
int64_t CountWrong(const at::Tensor& result, const at::Tensor& expected);

// Returns bus bandwidth ÷ algorithm bandwidth. Bus bandwidth can be compared with the speed of the hardware, whatever
// the number of ranks: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md.
double BusFactor(const std::string& operation, int world_size);

// A collective. Requires `min_bytes` ≤ `max_bytes` and a communicator with a process group. Rank 0 prints a line for
// each size as soon as it is measured, and nccl-tests' last lines. Returns on every rank
//   {"results": [{"operation", "bytes", "count", "type", "redop", "root", "out_of_place": {"microseconds", "algbw",
//   "busbw", "wrong"}, "in_place": {…}}, …], "out_of_bounds", "average_bus_bandwidth", "world_size", "device"}
// with bandwidths in GB/s and times averaged over ranks. c10d's all_reduce and broadcast work in place; their
// out-of-place times include the copy that this needs.
nlohmann::ordered_json BenchCollectives(distributed::Communicator& communicator, at::Device device,
                                        const CollectiveBenchOptions& options);

// dtrain_bench collective: the bench of collectives as a program, under every launcher.
//
// A collective. Connects to the other ranks, measures, and prints on rank 0, with `json` also one JSON object. Throws
// UsageError if the run has one rank and no process group, and Error (kInternal) if an element was wrong.
void BenchCollective(const modes::RunContext& context, const CollectiveBenchOptions& options, bool json);

}  // namespace dtrain::bench
