// dtrain_bench: measures, prints the machine it ran on, and with --json ends with one JSON object.
#include <cstdio>

#include <ATen/Parallel.h>

#include "models/registry.h"
#include "trainer/config/command_line.h"
#include "trainer/config/problems.h"
#include "trainer/distributed/device.h"
#include "trainer/errors.h"
#include "trainer/failure.h"
#include "trainer/launch/launch.h"
#include "trainer/loop/loader_bench.h"
#include "trainer/loop/step_bench.h"
#include "trainer/process_memory.h"

namespace {

using namespace dtrain;

const config::Program kProgram = {
    .name = "dtrain_bench",
    .purpose =
        "step: one training step on synthetic data, with the real model and optimizer\n"
        "loader: the batches of the training split, without a model",
    .commands = {"step", "loader"},
    .flags = {{"json", config::Kind::kBool, "false", "end with one JSON object"},
              {"steps", config::Kind::kInteger, "10", "steps (loader: batches) to time, 1 or more"},
              {"warmup", config::Kind::kInteger, "3", "steps or batches before them, 0 or more"},
              {"threads", config::Kind::kInteger, "0", "threads of an operator; 0: the cores of this machine"},
              {"pixels", config::Kind::kText, "uint8", "loader: uint8 or float32 (normalised, as a model takes them)"},
              {"dump", config::Kind::kText, "", "loader: safetensors file for the first batch with its crops"}}};

void PrintTable(const nlohmann::ordered_json& result) {
  for (const auto& [key, value] : result.items()) std::printf("%-18s %s\n", key.c_str(), value.dump().c_str());
}

int64_t Count(config::CommandLine& command_line, const char* flag, int64_t least) {
  return std::max<int64_t>(least, std::stoll(command_line.extra[flag]));
}

nlohmann::ordered_json BenchStep(config::CommandLine& command_line) {
  return loop::BenchStep(command_line.config, {Count(command_line, "warmup", 0), Count(command_line, "steps", 1)});
}

nlohmann::ordered_json BenchLoader(config::CommandLine& command_line) {
  const std::string& pixels = command_line.extra["pixels"];
  if (pixels != "uint8" && pixels != "float32") throw UsageError("--pixels=" + pixels + " is not uint8 or float32");
  return loop::BenchLoader(command_line.config, {.warmup = Count(command_line, "warmup", 0),
                                                 .batches = Count(command_line, "steps", 1),
                                                 .as_float = pixels == "float32",
                                                 .dump = command_line.extra["dump"]});
}

int Main(int argc, char** argv) {
  config::CommandLine command_line = config::ParseCommandLine(argc, argv, kProgram);
  if (!command_line.answer.empty()) return std::puts(command_line.answer.c_str()), 0;
  const bool loader = command_line.command == "loader";
  if (!loader) command_line.config.data.format = "synthetic";
  config::RequireValid(command_line.config, 1, models::ModelNames());
  distributed::UseShareOfCores(launch::Launch{});
  if (const int threads = std::stoi(command_line.extra["threads"]); threads > 0) at::set_num_threads(threads);
  const auto result = loader ? BenchLoader(command_line) : BenchStep(command_line);
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
