// Prints the head of the table, and turns wrong elements into an exit code.
#include "trainer/bench/collective_run.h"

#include <ATen/ATen.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "data/shown.h"
#include "trainer/bench/machine.h"
#include "trainer/errors.h"
#include "trainer/modes/session.h"

namespace dtrain::loop {
namespace {

constexpr int64_t kLongestDescription = 200;

std::string DescribeThisRank(const Session& session) {
  char host[64] = "";
  gethostname(host, sizeof host - 1);
  const std::string device =
      session.device.is_cuda()
          ? session.device.str() + " [" + session.place.pci_id + "] " + session.place.name
          : distributed::Describe(session.device) + ", " + DescribeMachine()["cpu"].get<std::string>();
  return "Pid " + std::to_string(getpid()) + " on " + host + " device " + device;
}

// Returns the descriptions of all ranks, by rank. A collective: each rank fills its own row, and the sum has all rows.
std::vector<std::string> DescribeRanks(Session& session) {
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

void PrintHead(const distributed::CollectiveBenchOptions& options, const std::vector<std::string>& ranks,
               at::Device device) {
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

void BenchCollective(const RunContext& context, const distributed::CollectiveBenchOptions& options, bool json) {
  const bool has_group = context.launch.world_size > 1 || context.config.ranks.backend == "nccl";
  if (!has_group) {
    throw UsageError("collectives need two ranks or more", "use --nproc_per_node=2, or a launcher that starts several");
  }
  Session session(context);
  session.Connect({{"operation", options.operation},
                   {"min_bytes", options.min_bytes},
                   {"max_bytes", options.max_bytes},
                   {"steps", options.iterations},
                   {"warmup", options.warmup}});
  const std::vector<std::string> ranks = DescribeRanks(session);
  const bool is_first = context.launch.rank == 0;
  if (is_first) PrintHead(options, ranks, session.device);
  auto result = distributed::BenchCollectives(*session.communicator, session.device, options);
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

}  // namespace dtrain::loop
