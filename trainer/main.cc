// dtrain_main connects the parts: command line → launcher → this process's rank → mode. Every failure ends in one
// report and one exit code.
#include <chrono>
#include <ctime>
#include <optional>
#include <utility>

#include "data/command_line/version.h"
#include "data/machine/limits.h"
#include "data/shallow_json.h"
#include "data/written_file.h"
#include "models/registry.h"
#include "trainer/config/choices.h"
#include "trainer/config/command_line.h"
#include "trainer/config/config_json.h"
#include "trainer/config/problems.h"
#include "trainer/config/resolve.h"
#include "trainer/control/join.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/device/device.h"
#include "trainer/doctor/doctor.h"
#include "trainer/errors.h"
#include "trainer/failure.h"
#include "trainer/launch/address_file.h"
#include "trainer/launch/launch.h"
#include "trainer/launch/local_address.h"
#include "trainer/launch/node_launcher.h"
#include "trainer/loop/stop_signal.h"
#include "trainer/modes/outputs.h"
#include "trainer/modes/run.h"
#include "trainer/report/console.h"
#include "trainer/report/log.h"
#include "trainer/report/run_directory.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/run_settings.h"
#include "trainer/weights/sentence_folder.h"
#include "trainer/weights/text_model.h"
#include "trainer/weights/weight_files.h"

namespace {

using namespace dtrain;

constexpr auto kPostPatience = std::chrono::milliseconds(300);  // at most: the other ranks of this machine end after it

// The flags that are not part of a run's configuration.
config::Program OwnFlags() {
  const auto kind = config::Kind::kBool;
  return {.name = "dtrain_main",
          .flags = {{"doctor", kind, "false",
                     "Check the machine, the network and the data, print each finding with its remedy, and exit "
                     "without training."},
                    {"list_models", kind, "false", "List the values of --model, one per line."},
                    {"list_tasks", kind, "false", "List the values of --task, one per line."},
                    {"list_optimizers", kind, "false", "List the values of --optimizer, one per line."},
                    {"list_schedules", kind, "false", "List the values of --lr_schedule, one per line."}},
          .version = VersionAndCommit()};
}

std::string ListAskedFor(const config::CommandLine& command_line) {
  const auto is_asked = [&](const char* flag) { return command_line.extra.at(flag) == "true"; };
  std::vector<Choice> models;
  for (const std::string& name : models::ModelNames()) models.push_back({name, models::Description(name)});
  std::vector<Choice> tasks = config::TaskChoices();
  tasks.erase(tasks.begin());  // auto
  std::string list;
  if (is_asked("list_models")) list += config::Lines(models);
  if (is_asked("list_tasks")) list += config::Lines(tasks);
  if (is_asked("list_optimizers")) list += config::Lines(config::OptimizerChoices());
  if (is_asked("list_schedules")) list += config::Lines(config::Schedules());
  return list.substr(0, list.find_last_not_of('\n') + 1);
}

// Forks the ranks of this machine. Returns empty in each rank, and in the parent their exit code after they have ended.
std::optional<int> ForkRanks(modes::RunContext& context, bool doctor) {
  config::Config& config = context.config;
  const bool to_train = config.run.mode == "train" && !doctor;
  // The run directory is chosen before ranks are forked, so that all attempts share it and the parent knows where they
  // report. Rank 0 tells it to other machines.
  if (to_train && config.run.dir.empty() && context.launch.node_rank == 0) {
    config.run.dir = modes::DefaultRunDirectory(context, context.launch.restart_count > 0, context.notes);
  }
  launch::NodeLauncherOptions options;
  options.max_restarts = to_train ? static_cast<int>(config.ranks.max_restarts) : 0;
  // Without this, ranks on other machines would wait for a rank that died before it had connected to them.
  options.on_death = [&](const launch::RankDeath& death) {
    const bool is_victim = death.signal == 0 && death.exit_code == static_cast<int>(ExitCode::kPeerLost);
    if (context.launch.nnodes == 1 || is_victim) return;  // a victim's news would end the next attempt of rank 0
    control::PostDeath({context.launch.master_addr, context.launch.master_port, context.launch.token}, death.rank,
                       death.signal != 0 ? "killed by signal " + std::to_string(death.signal)
                                         : "exit code " + std::to_string(death.exit_code),
                       control::Clock::now() + kPostPatience);
  };
  options.on_failure = [&](const launch::AttemptEnd& end) {
    if (doctor) return;
    // If it does not train, the folder is that of a run which has its own logs.
    ReportAttempt(end, context.launch.world_size, to_train ? config.run.dir : "", config.report.log_format == "json");
  };
  const launch::Forked forked = launch::ForkLocalRanks(context.launch, options);
  if (!forked.is_rank) return forked.exit_code;
  context.launch = forked.launch;
  context.listen_fd = forked.listen_fd;
  context.status->rank = forked.state;
  return std::nullopt;
}

void RequireGpu(const config::RanksConfig& ranks, int gpus, const device::NoGpu& no_gpu) {
  if (!ranks.require_gpu || (gpus > 0 && ranks.backend != "gloo")) return;
  throw UsageError("a GPU is required (--require_gpu, --device=cuda, --nproc_per_node=gpu), but " + no_gpu.what,
                   no_gpu.remedy + "; or do not require one, to compute on the CPU");
}

// Finds the launch. A mode of one rank runs on the first one of a launcher's, and in this process in place of those
// that it would start; returns empty on the others.
std::optional<launch::Launch> FindLaunch(config::Config& config, const launch::Machine& machine, bool doctor) {
  const bool is_of_one_rank = !doctor && config::IsOfOneRank(config.run);
  config::RanksConfig& ranks = config.ranks;
  if (is_of_one_rank) {
    if (ranks.node_rank.value_or(0) > 0) return std::nullopt;
    ranks.nproc_per_node = ranks.nnodes = "";
    ranks.node_rank.reset();
    // It takes more steps for the batch of all ranks.
    if (config.batch.global_batch_size && config.batch.batch_size) config.batch.grad_accum_steps.reset();
  }
  launch::Launch launch = launch::DetectLaunch(ranks, launch::ReadEnvironment(), machine);
  if (!is_of_one_rank) return launch;
  if (launch.rank > 0) return std::nullopt;
  launch.world_size = launch.local_world_size = launch.nnodes = 1;
  launch.spawns = 0;
  launch.address_key.clear();  // there is nobody to meet
  return launch;
}

// Signals and the job's limit stop the run in an orderly way.
void CatchStops(modes::RunContext& context) {
  loop::CatchStopSignals();
  const auto limit = launch::FindTimeLimit(context.config.run.max_hours, launch::ReadEnvironment(), std::time(nullptr));
  if (!limit) return;
  loop::StopAfter(std::chrono::duration<double>(limit->seconds));
  context.notes.push_back("the run saves and stops with 75 after " + report::FormatDuration(limit->seconds) + " (" +
                          limit->reason + ")");
}

// The one pass that makes a run's configuration of the command line, the weights and the machine. What a rank adds
// later is its own: its share of the cores, and the folder of a new run, which is made when all is well.
void ResolveConfig(modes::RunContext& context, bool has_gpu) {
  config::Config& config = context.config;
  const int world_size = context.launch.world_size;
  const auto note = [&context](const std::string& text) {
    if (!text.empty()) context.notes.push_back(text);
  };
  modes::FindLastRun(context);
  // A run's weights can be exported by either name; nothing is written into it.
  if (config.run.mode == "export" && config.run.input.empty()) config.run.input = std::exchange(config.run.dir, "");
  weights::TakeImageSizeOfModel(config);
  note(weights::FindNamedWeights(config));
  if (config.run.mode != "train") {
    for (const std::string& taken : weights::TakeSettingsOfRun(config)) note(taken);
  }
  tasks::ResolveTask(config);
  weights::TakeImageSettingsOfWeights(config);
  note(weights::TakeSentenceFolder(config));
  note(config::ResolveForDevice(config, has_gpu));
  note(weights::TakeTokensOfModel(config));  // with which --max_tokens is compared
  config::RequireValid(config, world_size, tasks::ModelFactsOf(config.model));
  config::Resolve(config, world_size);
}

// Meets the other ranks and runs the mode.
void RunMode(modes::RunContext& context, const launch::Machine& machine) {
  config::Config& config = context.config;
  launch::AddressFile address_file(launch::AddressFilePath(config.run.dir, context.launch.address_key));
  context.address_file = &address_file;
  launch::MeetThrough(address_file, machine, config.ranks.init_timeout_seconds, &loop::StopRequested, &context.launch,
                      &context.listen_fd);
  if (config.data.workers == 0) config.data.workers = device::ShareOfCores(context.launch);
  if (config.run.mode == "train") return modes::Train(context);
  if (config.run.mode == "eval") modes::EvaluateOnly(context);
  if (config.run.mode == "predict") modes::Predict(context);
  if (config.run.mode == "export") modes::Export(context);
  report::PrintAnswer("");  // the results of training are in its files, too
}

// Does everything up to the exit code, in the parent and in every rank.
int Main(int argc, char** argv, modes::RunContext& context, std::string& examined) {
  const config::CommandLine command_line = config::ParseCommandLine(argc, argv, OwnFlags(), &context.config);
  if (!command_line.answer.empty()) return report::PrintAnswer(command_line.answer), 0;
  if (const std::string list = ListAskedFor(command_line); !list.empty()) return report::PrintAnswer(list), 0;
  context.start = {Version(), Commit(), std::vector<std::string>(argv, argv + argc)};
  context.config = command_line.config;
  const bool doctor = command_line.extra.at("doctor") == "true";
  if (doctor) examined = "launcher";
  const device::GpuSigns signs = device::SeeGpus();
  const device::NoGpu no_gpu = device::WhyNoGpu(signs, context.config.ranks.backend);
  const launch::Machine machine{device::CountGpus(), no_gpu.what, static_cast<int>(data::AvailableCores()),
                                launch::OwnAddress()};
  const auto found = FindLaunch(context.config, machine, doctor);
  if (!found) return 0;
  context.launch = *found;
  if (doctor) examined = "configuration";
  context.notes = command_line.notes;
  const bool wants_gpu = context.config.ranks.backend != "gloo";
  if (wants_gpu && signs.in_machine && !signs.built_with_cuda) {
    context.notes.push_back("on the CPU: " + no_gpu.what + "; " + no_gpu.remedy);
  }
  ResolveConfig(context, machine.gpus > 0);
  if (context.config.run.print_config) {
    context.config.run.print_config = false;  // what is printed is a file of flags for --flagfile
    const nlohmann::ordered_json json = config::ToJson(context.config);
    return report::PrintAnswer(JsonText(json, 2)), 0;
  }
  RequireGpu(context.config.ranks, machine.gpus, no_gpu);
  if (context.launch.rank == 0 && !doctor) modes::RequireOutputs(context.config);
  if (context.config.run.dry_run) return modes::DryRun(context), report::PrintAnswer(""), 0;
  const std::string moved = launch::LeaveLoopback(machine, &context.launch);
  if (!moved.empty() && context.launch.rank == 0) report::LogWarning(moved);
  // From here on there is something to stop in an orderly way. Forked ranks inherit the handlers.
  if (config::IsOfOneRank(context.config.run)) {
    data::RemoveUnfinishedFilesOnSignals();
  } else if (!doctor) {
    CatchStops(context);
  }
  if (context.launch.launcher.is_outlived) launch::EndWithParent();
  if (context.launch.spawns > 0) {
    if (const auto exit_code = ForkRanks(context, doctor)) return *exit_code;
  }
  if (doctor) examined = "meeting";
  if (doctor) return static_cast<int>(doctor::Examine(context, machine));
  return RunMode(context, machine), 0;
}

// Reports the failure of this process and returns its exit code. `examined` is the check of --doctor that the error
// belongs to; empty without --doctor.
int Report(const std::exception& error, const modes::RunContext& context, const std::string& examined) {
  const modes::RunStatus& status = *context.status;
  report::Failure failure = FailureOf(error);
  failure.rank = context.launch.rank;
  failure.world_size = context.launch.world_size;
  if (status.rank->step >= 0) failure.step = status.rank->step;
  // Before the other ranks hear of it and end, too.
  if (failure.code != ExitCode::kPeerLost) status.rank->exit_code = static_cast<int>(failure.code);
  const std::string& seen = context.launch.seen;
  const bool met_badly = status.meets_ranks || (failure.code == ExitCode::kPeerLost && !failure.step);
  if (met_badly && !seen.empty()) failure.hint += "; seen: " + seen;
  if (status.control) failure = status.control->SettleFailure(failure);
  failure.as_json = context.config.report.log_format == "json";
  if (!examined.empty()) {
    try {
      doctor::Findings findings(failure.as_json, failure.rank, failure.world_size);
      findings.Say(doctor::Failed(examined, failure.code, failure.message, failure.hint));
      return static_cast<int>(failure.code);
    } catch (const std::exception&) {  // stdout itself has failed
    }
  }
  report::ReportFailure(failure, status.run_directory);
  return static_cast<int>(failure.code);
}

}  // namespace

int main(int argc, char** argv) {
  modes::RunStatus status;
  modes::RunContext context;
  context.status = &status;
  std::string examined;
  return RunProgram([&] { return Main(argc, argv, context, examined); },
                    [&](const std::exception& error) { return Report(error, context, examined); });
}
