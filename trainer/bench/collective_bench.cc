// All values are small whole numbers, so every sum is exact in float32 and every element can be checked.
#include "trainer/bench/benches.h"

#include <ATen/ATen.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "data/shown.h"
#include "trainer/errors.h"
#include "trainer/modes/session.h"
#include "trainer/report/log.h"

namespace dtrain::bench {
namespace {

constexpr int kRoot = 0;

struct Timed {
  double microseconds = 0;
  double algorithm_bandwidth = 0;  // GB/s
  double bus_bandwidth = 0;
  int64_t wrong = 0;
};

// One operation on one size. `send` and `receive` are separate or, in place, overlap as in nccl-tests.
struct Case {
  std::string operation;
  int64_t elements = 0;  // of the larger of the two tensors: the size in the table
  at::Tensor send, receive, expected;
};

// Returns the elements that rank `rank` contributes.
at::Tensor Pattern(int64_t elements, int rank, at::Device device) {
  return at::arange(rank, rank + elements, at::TensorOptions(at::kLong).device(device)).remainder(13).to(at::kFloat);
}

at::Tensor SumOfPatterns(int64_t elements, int world_size, at::Device device) {
  at::Tensor sum = at::zeros({elements}, at::TensorOptions(at::kFloat).device(device));
  for (int rank = 0; rank < world_size; ++rank) sum += Pattern(elements, rank, device);
  return sum;
}

Case MakeCase(const std::string& operation, int64_t elements, bool in_place,
              const distributed::Communicator& communicator, at::Device device) {
  const int rank = communicator.rank(), world = communicator.world_size();
  const int64_t share = elements / world;
  Case made{.operation = operation, .elements = elements, .send = {}, .receive = {}, .expected = {}};
  const auto mine = [&](const at::Tensor& tensor) { return tensor.slice(0, rank * share, (rank + 1) * share); };
  if (operation == "all_gather") {
    made.receive = at::full({elements}, -1.0, at::TensorOptions(at::kFloat).device(device));
    made.send = in_place ? mine(made.receive) : at::empty_like(mine(made.receive));
    made.send.copy_(Pattern(share, rank, device));
    std::vector<at::Tensor> shares;
    for (int other = 0; other < world; ++other) shares.push_back(Pattern(share, other, device));
    made.expected = at::cat(shares);
    return made;
  }
  made.send = Pattern(elements, rank, device);
  if (operation == "reduce_scatter") {
    made.receive = in_place ? mine(made.send) : at::full_like(mine(made.send), -1.0);
    made.expected = mine(SumOfPatterns(elements, world, device));
    return made;
  }
  made.receive = in_place ? made.send : at::full_like(made.send, -1.0);
  made.expected = operation == "broadcast" ? Pattern(elements, kRoot, device) : SumOfPatterns(elements, world, device);
  return made;
}

void RunOnce(c10d::ProcessGroup& group, Case& one) {
  const bool copies = !one.receive.is_same(one.send);
  std::vector<at::Tensor> tensors = {one.receive};
  if (one.operation == "all_reduce") {
    if (copies) one.receive.copy_(one.send);
    group.allreduce(tensors)->wait();
  } else if (one.operation == "broadcast") {
    if (copies && group.getRank() == kRoot) one.receive.copy_(one.send);
    c10d::BroadcastOptions options;
    options.rootRank = kRoot;
    group.broadcast(tensors, options)->wait();
  } else if (one.operation == "all_gather") {
    group._allgather_base(one.receive, one.send)->wait();
  } else {
    group._reduce_scatter_base(one.receive, one.send)->wait();
  }
}

void WaitForDevice(const at::Tensor& tensor) {
  if (tensor.is_cuda()) tensor[0].item<float>();
}

Timed Measure(const std::string& operation, int64_t elements, bool in_place, distributed::Communicator& communicator,
              at::Device device, const CollectiveBenchOptions& options) {
  Case timed = MakeCase(operation, elements, in_place, communicator, device);
  for (int64_t i = 0; i < options.warmup; ++i) RunOnce(*communicator.group(), timed);
  WaitForDevice(timed.receive);
  communicator.Barrier();
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < options.iterations; ++i) RunOnce(*communicator.group(), timed);
  WaitForDevice(timed.receive);
  const double seconds = report::SecondsSince(start);

  Case checked = MakeCase(operation, elements, in_place, communicator, device);  // not `timed`: its sums have grown
  RunOnce(*communicator.group(), checked);
  if (options.before_check) options.before_check(checked.receive);
  at::Tensor sums = at::empty({2}, at::kDouble);
  sums[0] = seconds / static_cast<double>(options.iterations) / communicator.world_size();
  sums[1] = CountWrong(checked.receive, checked.expected);
  communicator.Sum(sums);

  const double mean_seconds = sums[0].item<double>();
  Timed measured;
  measured.microseconds = mean_seconds * 1e6;
  measured.algorithm_bandwidth = static_cast<double>(elements) * sizeof(float) / mean_seconds / 1e9;
  measured.bus_bandwidth = measured.algorithm_bandwidth * BusFactor(operation, communicator.world_size());
  measured.wrong = static_cast<int64_t>(sums[1].item<double>());
  return measured;
}

nlohmann::ordered_json ToJson(const Timed& measured) {
  return {{"microseconds", measured.microseconds},
          {"algbw", measured.algorithm_bandwidth},
          {"busbw", measured.bus_bandwidth},
          {"wrong", measured.wrong}};
}

void PrintHeader(const std::string& operation) {
  std::printf("# %s\n#\n", operation.c_str());
  std::printf("# %52s %37s\n", "out-of-place", "in-place");
  std::printf("# %10s %12s %8s %6s %5s", "size", "count", "type", "redop", "root");
  for (int i = 0; i < 2; ++i) std::printf(" %9s %8s %8s %7s", "time", "algbw", "busbw", "#wrong");
  std::printf("\n# %10s %12s %8s %6s %5s", "(B)", "(elements)", "", "", "");
  for (int i = 0; i < 2; ++i) std::printf(" %9s %8s %8s %7s", "(us)", "(GB/s)", "(GB/s)", "");
  std::printf("\n");
}

void PrintLine(const nlohmann::ordered_json& line) {
  std::printf("  %10lld %12lld %8s %6s %5d", line["bytes"].get<long long>(), line["count"].get<long long>(),
              line["type"].get<std::string>().c_str(), line["redop"].get<std::string>().c_str(),
              line["root"].get<int>());
  for (const char* place : {"out_of_place", "in_place"}) {
    const auto& measured = line[place];
    std::printf(" %9.2f %8.3f %8.3f %7lld", measured["microseconds"].get<double>(), measured["algbw"].get<double>(),
                measured["busbw"].get<double>(), measured["wrong"].get<long long>());
  }
  std::printf("\n");
  std::fflush(stdout);
}

void PrintEnd(int64_t wrong, double average_bus_bandwidth) {
  std::printf("# Out of bounds values : %lld %s\n", static_cast<long long>(wrong), wrong == 0 ? "OK" : "FAILED");
  std::printf("# Avg bus bandwidth    : %g\n#\n", average_bus_bandwidth);
  std::fflush(stdout);
}

}  // namespace

const std::vector<std::string>& CollectiveNames() {
  static const std::vector<std::string> names = {"all_reduce", "broadcast", "all_gather", "reduce_scatter"};
  return names;
}

int64_t CountWrong(const at::Tensor& result, const at::Tensor& expected) {
  return result.ne(expected).sum().item<int64_t>();  // a NaN is not equal to anything
}

double BusFactor(const std::string& operation, int world_size) {
  const double ranks = world_size;
  if (operation == "all_reduce") return 2 * (ranks - 1) / ranks;
  if (operation == "broadcast") return 1;
  return (ranks - 1) / ranks;
}

nlohmann::ordered_json BenchCollectives(distributed::Communicator& communicator, at::Device device,
                                        const CollectiveBenchOptions& options) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  int64_t wrong = 0;
  double bus_bandwidths = 0;
  for (const std::string& operation : CollectiveNames()) {
    if (options.operation != "all" && options.operation != operation) continue;
    if (communicator.rank() == 0) PrintHeader(operation);
    const bool is_shared = operation == "all_gather" || operation == "reduce_scatter";
    const bool reduces = operation == "all_reduce" || operation == "reduce_scatter";
    const int64_t parts = is_shared ? communicator.world_size() : 1;
    for (int64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= 2) {
      const int64_t count = std::max<int64_t>(1, bytes / static_cast<int64_t>(sizeof(float)) / parts);
      const int64_t elements = count * parts;
      nlohmann::ordered_json line = {{"operation", operation},
                                     {"bytes", elements * static_cast<int64_t>(sizeof(float))},
                                     {"count", count},
                                     {"type", "float"},
                                     {"redop", reduces ? "sum" : "none"},
                                     {"root", operation == "broadcast" ? kRoot : -1}};
      for (const bool in_place : {false, true}) {
        const Timed measured = Measure(operation, elements, in_place, communicator, device, options);
        line[in_place ? "in_place" : "out_of_place"] = ToJson(measured);
        wrong += measured.wrong;
        bus_bandwidths += measured.bus_bandwidth;
      }
      if (communicator.rank() == 0) PrintLine(line);
      results.push_back(std::move(line));
    }
  }
  const double average_bus_bandwidth = bus_bandwidths / static_cast<double>(2 * results.size());
  if (communicator.rank() == 0) PrintEnd(wrong, average_bus_bandwidth);
  return {{"results", results},
          {"out_of_bounds", wrong},
          {"average_bus_bandwidth", average_bus_bandwidth},
          {"world_size", communicator.world_size()},
          {"device", device.str()}};
}

namespace {

constexpr int64_t kLongestDescription = 200;

std::string DescribeThisRank(const modes::Session& session) {
  const std::string device =
      session.device.is_cuda() ? session.device.str() + " [" + session.place.gpu.pci_id + "] " + session.place.gpu.name
                               : device::Describe(session.device) + ", " + DescribeMachine()["cpu"].get<std::string>();
  return "Pid " + std::to_string(getpid()) + " on " + report::HostName() + " device " + device;
}

// Returns the descriptions of all ranks, by rank. A collective: each rank fills its own row, and the sum has all rows.
std::vector<std::string> DescribeRanks(modes::Session& session) {
  const std::string own = DescribeThisRank(session).substr(0, kLongestDescription);
  at::Tensor rows = at::zeros({session.communicator->world_size(), kLongestDescription}, at::kByte);
  std::memcpy(rows[session.communicator->rank()].data_ptr(), own.data(), own.size());
  session.communicator->Sum(rows);
  std::vector<std::string> descriptions;
  for (int64_t rank = 0; rank < rows.size(0); ++rank) {
    const char* text = static_cast<const char*>(rows[rank].data_ptr());
    descriptions.emplace_back(text, std::find(text, text + kLongestDescription, '\0'));
  }
  return descriptions;
}

void PrintHead(const CollectiveBenchOptions& options, const std::vector<std::string>& ranks, at::Device device) {
  std::printf(
      "# dtrain_bench collective, %s: minBytes %lld maxBytes %lld step: 2(factor) warmup iters: %lld iters: %lld "
      "validation: 1\n#\n# Using devices\n",
      device.is_cuda() ? "nccl" : "gloo", static_cast<long long>(options.min_bytes),
      static_cast<long long>(options.max_bytes), static_cast<long long>(options.warmup),
      static_cast<long long>(options.iterations));
  for (size_t rank = 0; rank < ranks.size(); ++rank) std::printf("#  Rank %2zu %s\n", rank, Shown(ranks[rank]).c_str());
  std::printf("#\n");
}

}  // namespace

void BenchCollective(const modes::RunContext& context, const CollectiveBenchOptions& options, bool json) {
  const bool has_group = context.launch.world_size > 1 || context.config.ranks.backend == "nccl";
  if (!has_group) {
    throw UsageError("collectives need two ranks or more", "use --nproc_per_node=2, or a launcher that starts several");
  }
  modes::Session session(context);
  session.Connect(context.config, {{"operation", options.operation},
                                   {"min_bytes", options.min_bytes},
                                   {"max_bytes", options.max_bytes},
                                   {"steps", options.iterations},
                                   {"warmup", options.warmup}});
  const std::vector<std::string> ranks = DescribeRanks(session);
  const bool is_first = context.launch.rank == 0;
  if (is_first) PrintHead(options, ranks, session.device);
  auto result = BenchCollectives(*session.communicator, session.device, options);
  session.Leave();
  if (is_first && json) {
    result["ranks"] = ranks;
    result.update(DescribeMachine());
    std::puts(result.dump().c_str());
    std::fflush(stdout);
  }
  const auto wrong = result["out_of_bounds"].get<long long>();
  if (wrong > 0) {
    throw Error(ExitCode::kInternal, std::to_string(wrong) + " elements were wrong",
                "a defect of a machine, its network or its drivers: see the sizes above");
  }
}

}  // namespace dtrain::bench
