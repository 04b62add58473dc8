// dtrain_bench: measures, prints the machine it ran on, and with --json ends with one JSON object.
#include <cstdio>

#include <ATen/Parallel.h>

#include "models/registry.h"
#include "trainer/config/command_line.h"
#include "trainer/config/problems.h"
#include "trainer/distributed/device.h"
#include "trainer/failure.h"
#include "trainer/launch/launch.h"
#include "trainer/loop/step_bench.h"
#include "trainer/process_memory.h"

namespace {

using namespace dtrain;

const config::Program kProgram = {
    .name = "dtrain_bench",
    .purpose = "step: one training step on synthetic data, with the real model and optimizer",
    .commands = {"step"},
    .flags = {{"json", config::Kind::kBool, "false", "end with one JSON object"},
              {"steps", config::Kind::kInteger, "10", "steps to time, 1 or more"},
              {"warmup", config::Kind::kInteger, "3", "steps before them, 0 or more"},
              {"threads", config::Kind::kInteger, "0", "threads of an operator; 0: the cores of this machine"}}};

void PrintTable(const nlohmann::ordered_json& result) {
  for (const auto& [key, value] : result.items()) std::printf("%-18s %s\n", key.c_str(), value.dump().c_str());
}

int Main(int argc, char** argv) {
  config::CommandLine command_line = config::ParseCommandLine(argc, argv, kProgram);
  if (!command_line.answer.empty()) return std::puts(command_line.answer.c_str()), 0;
  command_line.config.data.format = "synthetic";
  config::RequireValid(command_line.config, 1, models::ModelNames());
  const loop::StepBenchOptions options{std::stoll(command_line.extra["warmup"]),
                                       std::max(1LL, std::stoll(command_line.extra["steps"]))};
  distributed::UseShareOfCores(launch::Launch{});
  if (const int threads = std::stoi(command_line.extra["threads"]); threads > 0) at::set_num_threads(threads);
  const auto result = loop::BenchStep(command_line.config, options);
  PrintTable(result);
  if (command_line.extra["json"] == "true") std::puts(result.dump().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  KeepFreedMemory();
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {
    const report::Failure failure = FailureOf(error);
    report::ReportFailure(failure, "");
    return static_cast<int>(failure.code);
  }
}
