// What dtrain_bench measures: steps, loading, collectives, and the network between pairs of machines; and the machine
// that it ran on, without which the figures mean nothing.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/forward_cost.h"
#include "trainer/config/config.h"
#include "trainer/distributed/communicator.h"
#include "trainer/modes/run.h"

namespace dtrain::bench {

// dtrain_bench step: measures steps of the real model, loss, exchange and optimizer on one random batch that stays on
// the device, so that reading data plays no part.
struct StepBenchOptions {
  int64_t warmup = 3;   // steps before the clock starts
  int64_t steps = 10;   // minimum number of timed steps
  double seconds = 0;   // minimum time to measure; 0: `steps` alone decides
  int64_t threads = 0;  // of an operator; 0: this rank's share of the cores
};

// A collective; the configuration has been resolved (config/resolve.h). Returns images_per_second or tokens_per_second
// (of all ranks), step_milliseconds (mean), achieved_tflops (of one rank: forward cost × 3), the loss of the last step,
// the settings, the machine, the parts of a step (MeasureParts), and on a GPU its roof (DescribeRoof). With
// several ranks it also returns the cost of communication:
//   compute_milliseconds         a step without communication
//   reduced_after_milliseconds   a step whose gradients are reduced after the backward pass
//   hidden_fraction              the share of that communication which the backward pass hides in step_milliseconds
//   bucket_bytes                 the sizes of the buckets of gradients that are reduced together, in their order
nlohmann::ordered_json BenchStep(const modes::RunContext& context, const StepBenchOptions& options);

// dtrain_bench loader: measures the real loader on the training split, without a model. It can also dump a batch, so
// that people see how their images are decoded and cropped.
struct LoaderBenchOptions {
  int64_t warmup = 3;     // batches before the clock starts
  int64_t batches = 10;   // batches timed
  double seconds = 0;     // > 0: time batches for this long instead
  bool as_float = false;  // also convert to normalised float32 N×3×H×W, as a model takes them
  std::string dump = {};  // safetensors file for the first batch; empty: no dump
};

// Returns images_per_second, images_per_processor_second, batch_milliseconds (mean), resident_mib (the memory of this
// process at eleven times, evenly spread), the settings, and the machine. Throws UsageError if the data is not images,
// and the errors of opening and reading it.
//
// The dump holds uint8 `images` N×H×W×3 before normalisation (float32 data as it is stored), int64 `index` (the
// position in the source) and `labels`, of several labels or numbers float32 `targets` in their place, int32 `crop` N×4
// (x, y, width, height in source pixels) and uint8 `flip`.
nlohmann::ordered_json BenchLoader(const config::Config& config, const LoaderBenchOptions& options);
// The key in a dump's metadata, by which it is known again and may be replaced.
inline constexpr char kDumpedBy[] = "dumped_by";

// dtrain_bench collective: measures the speed of collectives and checks their results. Prints the table that NVIDIA's
// nccl-tests print, so that the figures can be compared with published ones.
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

// dtrain_bench collective, under every launcher. A collective. Connects to the other ranks, measures, and prints on
// rank 0, with `json` also one JSON object. Throws UsageError if the run has one rank and no process group, and Error
// (kInternal) if an element was wrong.
void BenchCollective(const modes::RunContext& context, const CollectiveBenchOptions& options, bool json);

// dtrain_bench pairs: measures the network between machines, two at a time, and finds a machine that is slow with
// whomever it is paired. A collective of all machines is as slow as the slowest, and does not show which one that is.
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

// As a program, under every launcher that tells ranks their machines. A collective; rank 0 prints the table, with
// `json` also {"machines": [[GB/s of round 0, …], …], "slow": […]} on the last line. With one machine it does nothing.
// Throws PeerLostError on all ranks if a machine is slow, UsageError if the whole network is slower than `least_gbyte`.
void BenchPairs(const modes::RunContext& context, const PairBenchOptions& options, bool json);
// The first words of the file that a slow machine writes, by which it is known again and may be replaced.
inline constexpr char kSlowFileBeginning[] = "the network of machine ";

// --- The machine: its names, and how long a training step must take on its GPU at least (machine.cc). That floor is
// the time of the products at the speed of a large product, and then of the bytes that everything else must read and
// write, at the speed of a copy. What products read and write is not counted: it overlaps with their arithmetic. ---

// Returns threads (of an operator), cpu (its name), cores (that this process may use) and torch (LibTorch's version).
nlohmann::ordered_json DescribeMachine();

struct DeviceLimits {
  double bytes_per_second = 0;  // of a copy: read and written
  double flops_per_second = 0;  // of a product
};

struct LimitTrials {
  int64_t product_size = 8192;           // rows and columns of both matrices
  int64_t copied_bytes = 1'073'741'824;  // 1 GiB
  int64_t times = 10;                    // in each of six rounds
};

// Measures them on `device`, products in `type`. Waits for the device. Throws c10::OutOfMemoryError if its memory is
// full.
DeviceLimits MeasureLimits(at::Device device, at::ScalarType type, const LimitTrials& trials = {});

// What a training step of one rank must do.
struct StepWork {
  double flops = 0;  // of products
  double bytes = 0;  // read and written by everything else
};

// What decides the work of a step besides its model's cost.
struct StepScale {
  int64_t samples = 0;                   // of this rank
  int64_t weights = 0;                   // parameters that learn
  int64_t optimizer_bytes = 0;           // its state
  at::ScalarType products = at::kFloat;  // in which it multiplies
};

// The optimizer reads and writes the weights (float32) and its state, and reads the gradients; with a half type it also
// writes copies of the weights in that type, and float32 gradients are made of those in it.
StepWork WorkOfStep(const models::ForwardCost& cost_of_sample, const StepScale& scale);

// Returns floor_milliseconds, floor_products_milliseconds, floor_bytes, floor_bytes_milliseconds, the limits,
// share_of_floor (1 would be a step that takes no longer), and `roof`, a sentence with all of that.
nlohmann::ordered_json DescribeRoof(const StepWork& work, const DeviceLimits& limits, double step_seconds);

}  // namespace dtrain::bench
