// Sends and receives are in turn, not at once: so no rank waits for a partner that waits for it, on any backend.
#include "trainer/bench/benches.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/errors.h"
#include "trainer/modes/session.h"
#include "trainer/report/log.h"

namespace dtrain::bench {
namespace {

constexpr double kSlow = 0.5;  // of the median
constexpr double kGB = 1e9;

void Exchange(c10d::ProcessGroup& group, int partner, std::vector<at::Tensor>& sent,
              std::vector<at::Tensor>& received) {
  const bool sends_first = group.getRank() < partner;
  if (sends_first) group.send(sent, partner, 0)->wait();
  group.recv(received, partner, 0)->wait();
  if (!sends_first) group.send(sent, partner, 0)->wait();
}

// Returns GB/s in one direction between this rank and `partner`; 0 without one. A collective of all ranks.
double MeasurePair(distributed::Communicator& communicator, std::optional<int> partner, at::Device device,
                   const PairBenchOptions& options) {
  const int64_t elements = partner ? std::max<int64_t>(1, options.bytes / static_cast<int64_t>(sizeof(float))) : 0;
  std::vector<at::Tensor> sent = {at::ones({elements}, at::TensorOptions(at::kFloat).device(device))};
  std::vector<at::Tensor> received = {at::empty_like(sent[0])};
  const auto repeat = [&](int64_t times) {
    for (int64_t i = 0; partner && i < times; ++i) Exchange(*communicator.group(), *partner, sent, received);
    if (partner && device.is_cuda()) received[0][0].item<float>();  // waits for the device
  };
  repeat(options.warmup);
  communicator.Barrier();
  const auto start = std::chrono::steady_clock::now();
  repeat(options.iterations);
  const double seconds = report::SecondsSince(start);
  communicator.Barrier();
  const auto bytes = static_cast<double>(2 * options.iterations * elements) * sizeof(float);
  return partner ? bytes / seconds / kGB : 0;
}

std::vector<double> BestOf(const std::vector<std::vector<double>>& machines) {
  std::vector<double> best;
  for (const auto& rounds : machines) best.push_back(*std::ranges::max_element(rounds));
  return best;
}

double MedianOf(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

std::string Rounded(double gbyte) { return report::Format("%.3f GB/s", gbyte); }

void PrintPairs(const std::vector<std::vector<double>>& machines) {
  const int count = static_cast<int>(machines.size());
  std::printf("# dtrain_bench pairs: GB/s between machines, in one direction, all ranks of a machine together\n");
  for (int machine = 0; machine < count; ++machine) {
    std::printf("  machine %3d:", machine);
    for (int round = 0; round < PairRounds(count); ++round) {
      const std::optional<int> partner = PartnerOf(machine, round, count);
      if (partner) std::printf("  %9.3f with %d", machines[machine][round], *partner);
    }
    std::printf("\n");
  }
  std::fflush(stdout);
}

void PrintJson(const std::vector<std::vector<double>>& machines, const std::vector<int>& slow) {
  std::puts(nlohmann::ordered_json{{"machines", machines}, {"slow", slow}}.dump().c_str());
  std::fflush(stdout);
}

}  // namespace

int PairRounds(int machines) {
  if (machines < 3) return machines - 1;
  return machines % 2 == 0 ? 2 : 3;  // of an odd number one waits in each round
}

std::optional<int> PartnerOf(int machine, int round, int machines) {
  const int seat = (machine - round + machines) % machines;  // 0 sits with 1, 2 with 3; each round all move on by one
  const int other = seat ^ 1;
  if (other >= machines) return std::nullopt;
  return (other + round) % machines;
}

std::vector<int> SlowMachines(const std::vector<double>& best, double least_gbyte) {
  std::vector<int> slow;
  if (best.size() < 3) return slow;
  const double median = MedianOf(best);
  const double least = std::max(kSlow * median, least_gbyte <= median ? least_gbyte : 0.0);
  for (size_t machine = 0; machine < best.size(); ++machine) {
    if (best[machine] < least) slow.push_back(static_cast<int>(machine));
  }
  return slow;
}

std::vector<std::vector<double>> BenchMachines(distributed::Communicator& communicator, at::Device device,
                                               const launch::Launch& place, const PairBenchOptions& options) {
  at::Tensor places = at::zeros({communicator.world_size(), 2}, at::kLong);
  places[communicator.rank()][0] = place.node_rank;
  places[communicator.rank()][1] = place.local_rank;
  communicator.Sum(places);
  const auto rank_at = [&](int machine, int local_rank) -> std::optional<int> {
    for (int rank = 0; rank < communicator.world_size(); ++rank) {
      if (places[rank][0].item<int64_t>() == machine && places[rank][1].item<int64_t>() == local_rank) return rank;
    }
    return std::nullopt;
  };
  const int machines = place.nnodes, rounds = PairRounds(machines);
  at::Tensor speeds = at::zeros({machines, rounds}, at::kDouble);
  for (int round = 0; round < rounds; ++round) {
    const std::optional<int> machine = PartnerOf(place.node_rank, round, machines);
    const std::optional<int> partner = machine ? rank_at(*machine, place.local_rank) : std::nullopt;
    speeds[place.node_rank][round] = MeasurePair(communicator, partner, device, options);
  }
  communicator.Sum(speeds);
  std::vector<std::vector<double>> found(static_cast<size_t>(machines));
  for (int machine = 0; machine < machines; ++machine) {
    for (int round = 0; round < rounds; ++round) found[machine].push_back(speeds[machine][round].item<double>());
  }
  return found;
}

void BenchPairs(const modes::RunContext& context, const PairBenchOptions& options, bool json) {
  if (context.launch.nnodes < 2) {
    if (context.launch.rank != 0) return;
    report::LogInfo("this is one machine: there are no pairs to measure");
    if (json) PrintJson(std::vector<std::vector<double>>(1), {});
    return;
  }
  modes::Session session(context);
  session.Connect(context.config, {{"bytes", options.bytes},
                                   {"steps", options.iterations},
                                   {"least_gbyte", options.least_gbyte},
                                   {"machines", context.launch.nnodes}});
  const auto machines = BenchMachines(*session.communicator, session.device, context.launch, options);
  session.Leave();
  const std::vector<double> best = BestOf(machines);
  const std::vector<int> slow = SlowMachines(best, options.least_gbyte);
  const double median = MedianOf(best);
  if (context.launch.rank == 0) {
    PrintPairs(machines);
    if (json) PrintJson(machines, slow);
  }
  if (!slow.empty()) {
    const auto said = [&](int machine) {
      return kSlowFileBeginning + std::to_string(machine) + " is slow: at best " + Rounded(best[machine]) +
             " with another machine; the median of all is " + Rounded(median);
    };
    const bool is_this = std::ranges::find(slow, context.launch.node_rank) != slow.end();
    if (is_this && context.launch.local_rank == 0 && !options.slow_file.empty()) {
      checkpoint::DurableFile file(options.slow_file);
      file.Append(said(context.launch.node_rank) + "\n");
      file.Finish();
    }
    throw PeerLostError(said(is_this ? context.launch.node_rank : slow.front()),
                        "take it out of service, then start again");
  }
  if (median < options.least_gbyte) {
    throw UsageError(
        "the network gives " + Rounded(median) + ", and --least_gbyte asks for " + Rounded(options.least_gbyte),
        "is EFA in use (NCCL_DEBUG=INFO: Selected provider is efa)? With two machines one may be sick: try each with a "
        "third");
  }
}

}  // namespace dtrain::bench
