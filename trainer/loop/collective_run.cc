#include "trainer/loop/collective_run.h"

#include <cstdio>

#include "trainer/errors.h"
#include "trainer/loop/session.h"

namespace dtrain::loop {

void BenchCollective(const RunContext& context, const distributed::CollectiveBenchOptions& options, bool json) {
  if (context.launch.world_size < 2) {
    throw UsageError("collectives need two ranks or more", "--nproc_per_node=2, or a launcher that starts several");
  }
  Session session(context);
  session.Connect({{"operation", options.operation},
                   {"min_bytes", options.min_bytes},
                   {"max_bytes", options.max_bytes},
                   {"steps", options.iterations},
                   {"warmup", options.warmup}});
  const bool is_first = context.launch.rank == 0;
  if (is_first) {
    std::printf("# dtrain_bench collective: %d ranks, %s, %lld iterations after %lld to warm up\n",
                context.launch.world_size, session.device.is_cuda() ? "nccl" : "gloo",
                static_cast<long long>(options.iterations), static_cast<long long>(options.warmup));
  }
  const auto result = distributed::BenchCollectives(*session.communicator, session.device, options);
  session.Leave();
  const auto wrong = result["out_of_bounds"].get<long long>();
  if (is_first) {
    std::printf("# Out of bounds values : %lld %s\n", wrong, wrong == 0 ? "OK" : "FAILED");
    std::printf("# Avg bus bandwidth    : %g\n", result["average_bus_bandwidth"].get<double>());
    if (json) std::printf("%s\n", result.dump().c_str());
    std::fflush(stdout);
  }
  if (wrong > 0) {
    throw Error(ExitCode::kInternal, std::to_string(wrong) + " elements were wrong",
                "a defect of a machine, its network or its drivers: see the sizes above");
  }
}

}  // namespace dtrain::loop
