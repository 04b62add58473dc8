// dtrain_bench measures steps, loading or collectives. It prints the machine that it ran on, and with --json ends with
// one JSON object.
#include <algorithm>
#include <cstdio>
#include <map>

#include <ATen/Parallel.h>

#include "data/command_line/version.h"
#include "data/machine/limits.h"
#include "trainer/bench/benches.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/config/command_line.h"
#include "trainer/config/problems.h"
#include "trainer/config/resolve.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/device/device.h"
#include "trainer/errors.h"
#include "trainer/failure.h"
#include "trainer/launch/address_file.h"
#include "trainer/launch/local_address.h"
#include "trainer/launch/node_launcher.h"
#include "trainer/modes/outputs.h"
#include "trainer/report/log.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/run_settings.h"
#include "trainer/weights/text_model.h"

namespace {

using namespace dtrain;

const config::Program kProgram = {
    .name = "dtrain_bench",
    .purpose =
        "step: measures a training step on synthetic data with the real model and optimizer; on several ranks also\n"
        "      the cost of communication and how much of it the backward pass hides\n"
        "loader: measures how fast batches of the training split are loaded, without a model\n"
        "collective: measures and checks collectives between ranks, in the format of nccl-tests\n"
        "pairs: measures the network between machines, two at a time, and finds one that is slow with each\n"
        "It takes --flagfile and the flags of dtrain_main, too; those of what to run (but --task and --defaults_of), "
        "the\n"
        "schedule and the report change nothing that is measured.",
    .commands = {"step", "loader", "collective", "pairs"},
    .flags = {{"json", config::Kind::kBool, "false", "Print the result as one JSON object on the last line."},
              {"steps", config::Kind::kInteger, "10",
               "Steps (loader: batches; collective, pairs: calls) to time, 1 or more."},
              {"seconds", config::Kind::kInteger, "0",
               "loader: seconds to measure; 0: --steps batches instead. step: minimum seconds to measure."},
              {"warmup", config::Kind::kInteger, "3", "Steps, batches or calls before the timed ones, 0 or more."},
              {"threads", config::Kind::kInteger, "0",
               "step, loader: threads per operator; 0: the rank's share of the machine's cores."},
              {"pixels", config::Kind::kText, "uint8",
               "loader: type of the pixels: uint8, or float32 (normalised, as models take them)."},
              {"dump", config::Kind::kText, "",
               "loader: safetensors file to write the first batch and its crops to; empty: none.",
               data::PathUse::kWritten},
              {"min_bytes", config::Kind::kText, "8", "collective: smallest size, in bytes or as in 64K, 8M, 1G."},
              {"max_bytes", config::Kind::kText, "32M",
               "collective: largest size; each size is twice the previous one. pairs: the size."},
              {"operation", config::Kind::kText, "all",
               "collective: all_reduce, broadcast, all_gather, reduce_scatter, or all for all of them."},
              {"least_gbyte", config::Kind::kNumber, "0",
               "pairs: GB/s in each direction that machines must reach; 0: a machine is slow only beside the others."},
              {"slow_file", config::Kind::kText, "", "pairs: file that a slow machine writes; empty: none.",
               data::PathUse::kWritten}},
    .version = VersionAndCommit()};

// Returns the whole number that a flag gives. Throws UsageError if it is below `least`.
int64_t Count(config::CommandLine& command_line, const char* flag, int64_t least) {
  const std::string& text = command_line.extra[flag];
  const int64_t count = std::stoll(text);
  if (count < least) {
    throw UsageError("--" + std::string(flag) + "=" + text + " is too few: " + std::to_string(least) + " or more");
  }
  return count;
}

// Returns the bytes that a flag gives as "8", "64K", "32M" or "1G". Throws UsageError.
int64_t Bytes(config::CommandLine& command_line, const char* flag) {
  const std::string& text = command_line.extra[flag];
  static const std::map<std::string, int> kShifts = {{"", 0}, {"K", 10}, {"M", 20}, {"G", 30}};
  constexpr int64_t kMostBytes = int64_t{1} << 50;
  constexpr size_t kMostDigits = 18;  // fewer than overflow 64 bits
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto shift = kShifts.find(text.substr(digits));
  const bool is_size = digits > 0 && digits <= kMostDigits && shift != kShifts.end();
  const int64_t number = is_size ? std::stoll(text) : 0;
  if (number < 1 || number > kMostBytes >> shift->second) {
    throw UsageError("--" + std::string(flag) + "=" + text + " is not a size",
                     "give a number of bytes above 0, or one such as 64K, 32M, 1G");
  }
  return number << shift->second;
}

// A file for a flag without marks must be new or empty.
void RequireOutputs(const config::CommandLine& command_line) {
  const std::map<std::string, std::vector<data::Mark>> marks = {{"dump", {{"", bench::kDumpedBy}}},
                                                                {"slow_file", {{bench::kSlowFileBeginning}}}};
  std::vector<data::Output> outputs;
  for (const config::ExtraFlag& flag : kProgram.flags) {
    const std::string& path = command_line.extra.at(flag.name);
    if (flag.path != data::PathUse::kWritten || path.empty()) continue;
    const auto known = marks.find(flag.name);
    outputs.push_back({.flag = "--" + flag.name, .path = path});
    if (known != marks.end()) outputs.back().marks = known->second;
  }
  config::Config config = command_line.config;
  config.run.mode = "eval";  // which reads data, as measurements do
  data::RequireOutputs(outputs, modes::InputsOf(config, outputs));
}

// The table leaves out lists, which are for programs.
void Report(const nlohmann::ordered_json& result, bool as_json) {
  for (const auto& [key, value] : result.items()) {
    if (!value.is_array()) std::printf("%-26s %s\n", key.c_str(), value.dump().c_str());
  }
  if (as_json) std::puts(result.dump().c_str());
}

// Finds this process's rank and calls `measure` in it, or in each of the ranks that are forked here.
template <typename Measure>
int OnEveryRank(modes::RunContext& context, const launch::Machine& machine, const Measure& measure) {
  context.config.run.mode = "eval";  // so that no run directory is locked
  if (context.launch.launcher.is_outlived) launch::EndWithParent();
  if (context.launch.spawns > 0) {
    const launch::Forked forked = launch::ForkLocalRanks(context.launch);
    if (!forked.is_rank) return forked.exit_code;
    context.launch = forked.launch;
    context.listen_fd = forked.listen_fd;
  }
  launch::AddressFile address_file(launch::AddressFilePath(context.config.run.dir, context.launch.address_key));
  const auto never = [] { return false; };  // a signal ends a bench at once
  launch::MeetThrough(address_file, machine, context.config.ranks.init_timeout_seconds, never, &context.launch,
                      &context.listen_fd);
  measure();
  return 0;
}

int Step(config::CommandLine& command_line, modes::RunContext& context, const launch::Machine& machine) {
  // Without a launcher one rank is measured, however many GPUs the machine has.
  const bool is_alone = !context.launch.launcher.is_one && context.config.ranks.nproc_per_node.empty();
  if (is_alone) context.launch = launch::Launch{};
  context.config.data.format = "synthetic";
  weights::TakeTokensOfModel(context.config);
  config::RequireValid(context.config, context.launch.world_size, tasks::ModelFactsOf(context.config.model));
  if (config::IsElastic(context.config)) {
    throw UsageError("dtrain_bench step has no shards", "measure --deterministic=elastic with a short run");
  }
  config::Resolve(context.config, context.launch.world_size);
  const bench::StepBenchOptions options{.warmup = Count(command_line, "warmup", 0),
                                        .steps = Count(command_line, "steps", 1),
                                        .seconds = static_cast<double>(Count(command_line, "seconds", 0)),
                                        .threads = Count(command_line, "threads", 0)};
  return OnEveryRank(context, machine, [&] {
    const auto result = bench::BenchStep(context, options);
    if (context.launch.rank == 0) Report(result, command_line.extra["json"] == "true");
  });
}

int Loader(config::CommandLine& command_line) {
  config::ResolveForDevice(command_line.config, /*has_gpu=*/false);
  config::RequireValid(command_line.config, 1, tasks::ModelFactsOf(command_line.config.model));
  device::UseShareOfCores(launch::Launch{});
  if (const int64_t threads = Count(command_line, "threads", 0); threads > 0) {
    device::UseThreads(static_cast<int>(threads));
  }
  const std::string& pixels = command_line.extra["pixels"];
  if (pixels != "uint8" && pixels != "float32") throw UsageError("--pixels=" + pixels + " is not uint8 or float32");
  const bench::LoaderBenchOptions options{.warmup = Count(command_line, "warmup", 0),
                                          .batches = Count(command_line, "steps", 1),
                                          .seconds = static_cast<double>(Count(command_line, "seconds", 0)),
                                          .as_float = pixels == "float32",
                                          .dump = command_line.extra["dump"]};
  Report(bench::BenchLoader(command_line.config, options), command_line.extra["json"] == "true");
  return 0;
}

int Collective(config::CommandLine& command_line, modes::RunContext& context, const launch::Machine& machine) {
  auto& extra = command_line.extra;
  const bench::CollectiveBenchOptions options{
      .min_bytes = Bytes(command_line, "min_bytes"),
      .max_bytes = Bytes(command_line, "max_bytes"),
      .warmup = Count(command_line, "warmup", 0),
      .iterations = Count(command_line, "steps", 1),
      .operation = extra["operation"],
  };
  if (options.min_bytes > options.max_bytes) {
    throw UsageError("--min_bytes=" + extra["min_bytes"] + " is more than --max_bytes=" + extra["max_bytes"]);
  }
  const auto& names = bench::CollectiveNames();
  if (options.operation != "all" && std::ranges::find(names, options.operation) == names.end()) {
    throw UsageError("--operation=" + options.operation + " is not a known operation", "see dtrain_bench --help");
  }
  return OnEveryRank(context, machine, [&] { bench::BenchCollective(context, options, extra["json"] == "true"); });
}

int Pairs(config::CommandLine& command_line, modes::RunContext& context, const launch::Machine& machine) {
  auto& extra = command_line.extra;
  const bench::PairBenchOptions options{.bytes = Bytes(command_line, "max_bytes"),
                                        .warmup = Count(command_line, "warmup", 0),
                                        .iterations = Count(command_line, "steps", 1),
                                        .least_gbyte = std::stod(extra["least_gbyte"]),
                                        .slow_file = extra["slow_file"]};
  if (!(options.least_gbyte >= 0)) throw UsageError("--least_gbyte=" + extra["least_gbyte"] + " is below 0");
  return OnEveryRank(context, machine, [&] { bench::BenchPairs(context, options, extra["json"] == "true"); });
}

int Main(int argc, char** argv, modes::RunContext& context) {
  config::CommandLine command_line = config::ParseCommandLine(argc, argv, kProgram, &context.config);
  if (!command_line.answer.empty()) return report::PrintAnswer(command_line.answer), 0;
  RequireOutputs(command_line);
  command_line.config.run.mode = "train";  // what is measured is a training, whatever a flag file says
  tasks::ResolveTask(command_line.config);
  weights::TakeImageSizeOfModel(command_line.config);
  if (command_line.command == "loader") return Loader(command_line);
  context.config = command_line.config;
  const launch::Machine machine{device::CountGpus(),
                                device::WhyNoGpu(device::SeeGpus(), context.config.ranks.backend).what,
                                static_cast<int>(data::AvailableCores()), launch::OwnAddress()};
  config::ResolveForDevice(context.config, machine.gpus > 0);
  context.launch = launch::DetectLaunch(context.config.ranks, launch::ReadEnvironment(), machine);
  const std::string moved = launch::LeaveLoopback(machine, &context.launch);
  if (!moved.empty() && context.launch.rank == 0) report::LogWarning(moved);
  if (command_line.command == "step") return Step(command_line, context, machine);
  return command_line.command == "pairs" ? Pairs(command_line, context, machine)
                                         : Collective(command_line, context, machine);
}

}  // namespace

int main(int argc, char** argv) {
  modes::RunStatus status;
  modes::RunContext context;
  context.status = &status;
  const auto report = [&](const std::exception& error) {
    report::Failure failure = FailureOf(error);
    failure.rank = context.launch.rank;
    failure.world_size = context.launch.world_size;
    if (status.control) failure = status.control->SettleFailure(failure);
    failure.as_json = context.config.report.log_format == "json";
    report::ReportFailure(failure, "");
    return static_cast<int>(failure.code);
  };
  const auto body = [&] {
    const int exit_code = Main(argc, argv, context);
    report::PrintAnswer("");
    return exit_code;
  };
  return RunProgram(body, report);
}
