// dtrain_main: wiring. Command line → launcher → this process's rank → mode; every failure → one report, one exit code.
#include <cstdio>

#include "models/registry.h"
#include "trainer/config/command_line.h"
#include "trainer/config/config_json.h"
#include "trainer/config/problems.h"
#include "trainer/config/resolve.h"
#include "trainer/distributed/cuda_plugin.h"
#include "trainer/failure.h"
#include "trainer/launch/node_launcher.h"
#include "trainer/loop/run.h"
#include "trainer/process_memory.h"

namespace {

using namespace dtrain;

void RunMode(const loop::RunContext& context) {
  if (context.config.run.mode == "train") return loop::Train(context);
  if (context.config.run.mode == "eval") return loop::EvaluateOnly(context);
  loop::Predict(context);
}

// Everything until the exit code, in the parent and in every rank.
int Main(int argc, char** argv, loop::RunContext& context) {
  const config::CommandLine command_line = config::ParseCommandLine(argc, argv);
  if (!command_line.answer.empty()) return std::puts(command_line.answer.c_str()), 0;
  context.config = command_line.config;
  context.launch = launch::DetectLaunch(context.config.ranks, launch::ReadEnvironment(), distributed::CountGpus());
  config::RequireValid(context.config, context.launch.world_size, models::ModelNames());
  config::Resolve(context.config, context.launch.world_size);
  if (context.config.run.print_config) return std::puts(config::ToJson(context.config).dump(2).c_str()), 0;
  if (context.config.run.dry_run) return loop::DryRun(context), 0;
  if (context.launch.spawns > 0) {
    const launch::Forked forked = launch::ForkLocalRanks(context.launch);
    if (!forked.is_rank) return forked.exit_code;
    context.launch = forked.launch;
    context.listen_fd = forked.listen_fd;
  }
  RunMode(context);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  KeepFreedMemory();
  loop::RunStatus status;
  loop::RunContext context;
  context.status = &status;
  const auto report = [&](const std::exception& error) {
    report::Failure failure = FailureOf(error);
    failure.rank = context.launch.rank;
    failure.world_size = context.launch.world_size;
    if (status.step >= 0) failure.step = status.step;
    report::ReportFailure(failure, status.run_directory);
    return static_cast<int>(failure.code);
  };
  ReportOnTerminate(report);
  try {
    return Main(argc, argv, context);
  } catch (const std::exception& error) {
    return report(error);
  }
}
