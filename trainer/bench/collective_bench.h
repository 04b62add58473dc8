// How fast this run's collectives are, and whether they are right: the table that NVIDIA's nccl-tests print.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/distributed/communicator.h"

namespace dtrain::distributed {

struct CollectiveBenchOptions {
  int64_t min_bytes = 8;
  int64_t max_bytes = int64_t{32} << 20;  // sizes double from one to the other
  int64_t warmup = 3;
  int64_t iterations = 10;
  std::string operation = "all";  // all_reduce, broadcast, all_gather, reduce_scatter or all of them
  std::function<void(at::Tensor&)> before_check = {};  // for tests: sees each result before it is checked
};

// all_reduce, broadcast, all_gather, reduce_scatter.
const std::vector<std::string>& CollectiveNames();

// Elements that are not exactly what they should be.
int64_t CountWrong(const at::Tensor& result, const at::Tensor& expected);

// Bus bandwidth ÷ algorithm bandwidth, https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md: what makes
// the figure comparable with the speed of the hardware, whatever the number of ranks.
double BusFactor(const std::string& operation, int world_size);

// A collective; `min_bytes` ≤ `max_bytes`. Rank 0 prints a line per size while it goes on, and nccl-tests' last lines.
// Returns, on every rank,
//   {"results": [{"operation", "bytes", "count", "type", "redop", "root", "out_of_place": {"microseconds", "algbw",
//   "busbw", "wrong"}, "in_place": {…}}, …], "out_of_bounds", "average_bus_bandwidth", "world_size", "device"}
// with bandwidths in GB/s and times averaged over ranks. c10d's all_reduce and broadcast are in place: the copy that
// makes them out of place is part of that time.
nlohmann::ordered_json BenchCollectives(Communicator& communicator, at::Device device,
                                        const CollectiveBenchOptions& options);

}  // namespace dtrain::distributed
