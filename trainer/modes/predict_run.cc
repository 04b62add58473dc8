// --mode=predict: writes a table for people, or the model's outputs for tensors. The latter bypasses all decoding, so
// that the model can be compared with other frameworks. The task's kind knows how.
#include "trainer/device/device.h"
#include "trainer/errors.h"
#include "trainer/modes/run.h"
#include "trainer/report/log.h"
#include "trainer/tasks/task_kind.h"

namespace dtrain::modes {

void Predict(const RunContext& context) {
  const config::Config& config = context.config;
  if (context.launch.world_size > 1) {
    throw UsageError("--mode=predict runs on one rank", "leave out --nproc_per_node and the launcher");
  }
  device::UseShareOfCores(context.launch);
  const at::Device device = device::DeviceOf(context.launch, config.ranks.backend, config.precision.name);
  report::InitializeLogging(context.launch.rank, context.launch.world_size, /*log_directory=*/"");
  for (const std::string& note : context.notes) report::LogInfo(note);
  tasks::KindOf(config).Predict(config, device);
}

}  // namespace dtrain::modes
