// Rank 0 chooses the run directory and tells the other ranks, since its default name contains the time.
#include "trainer/modes/session.h"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "data/outputs.h"
#include "data/shallow_json.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/config/config_json.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/device/nccl_environment.h"
#include "trainer/distributed/rendezvous.h"
#include "trainer/errors.h"
#include "trainer/loop/stop_signal.h"
#include "trainer/report/error_report.h"
#include "trainer/report/log.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::modes {
namespace {

constexpr auto kFlightRecordPatience = std::chrono::milliseconds(500);  // other ranks wait for this process to end

// Returns for how long to wait for the run directory's lock. Where an earlier attempt was on a machine that is lost,
// the file system still holds its lock: NFS's lease is 90 s, and Lustre evicts after 100 or more. Other ranks, who wait
// for this one, need half of their time for what comes then.
std::chrono::duration<double> PatienceForLock(const RunContext& context, bool restarted) {
  constexpr double kLostMachineKeepsLock = 180;
  const double of_ranks = context.launch.world_size > 1 ? context.config.ranks.init_timeout_seconds / 2 : 1e9;
  return std::chrono::duration<double>(restarted ? std::min(kLostMachineKeepsLock, of_ranks) : 0);
}

// Locks the run directory for this job, and removes the failure reports of an earlier attempt.
void TakeRunDirectory(const report::RunDirectory& files, std::chrono::duration<double> patience,
                      std::optional<checkpoint::RunLock>& lock) {
  report::PrepareRunDirectory(files);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  lock.emplace(files.root, [&, has_said = false](const std::string& why) mutable {
    if (loop::StopRequested()) throw Preempted("stopped before the training began");
    const bool waits = std::chrono::steady_clock::now() < deadline;
    if (waits && !std::exchange(has_said, true)) {
      report::LogWarning(why + report::Format(": waiting up to %.0f s", patience.count()) +
                         ", in case that machine is lost and its lock lives on");
    }
    return waits;
  });
  report::RemoveErrorFiles(files.root);
}

// Returns how the run of this config.json was started last; null if it does not say, or cannot be read.
nlohmann::json StartIn(const std::filesystem::path& config_json) {
  try {
    return weights::PartOf(ParseObject(checkpoint::ReadTextFile(config_json, weights::kMostConfigBytes)),
                           config::kStartKey);
  } catch (const StorageError&) {  // another user's, perhaps; whoever needs the file says so
    return {};
  }
}

bool IsNamed(const std::string& job) { return !job.empty() && !job.ends_with("=none"); }  // torchrun's without a name

bool IsSameCommand(const nlohmann::json& start, const RunContext& context) {
  return weights::PartOf(start, "command") == config::StartRecord(context.start, context.config)["command"];
}

bool HasEnded(const report::RunDirectory& run) { return std::filesystem::exists(run.result_json); }

// Whether the run in the directory of this config.json may have been begun by an earlier attempt of this job: a
// scheduler's name of the job tells, else the command, and earlier versions did not write them. Of jobs without a name,
// what has ended may be that of an earlier job.
bool MayBeOfJob(const report::RunDirectory& run, const RunContext& context) {
  const nlohmann::json start = StartIn(run.config_json), known = weights::PartOf(start, kJobKey);
  if (known.is_null()) return true;
  if (IsNamed(context.launch.job)) return known == context.launch.job;
  return IsSameCommand(start, context) && !HasEnded(run);
}

// Whether an earlier attempt of this job began the run.
bool IsOfJob(const report::RunDirectory& run, const RunContext& context) {
  const nlohmann::json start = StartIn(run.config_json);
  const std::string& job = context.launch.job;
  return !job.empty() && weights::PartOf(start, kJobKey) == job && IsSameCommand(start, context) &&
         (IsNamed(job) || !HasEnded(run));
}

control::ControlPlaneOptions ControlOptionsFor(const RunContext& context) {
  control::ControlPlaneOptions options;
  options.comm_timeout_seconds = context.config.ranks.comm_timeout_seconds;
  options.stop_requested = &loop::StopRequested;
  options.warn = &report::LogWarning;
  options.note_cause = [rank = context.status->rank](int exit_code) { rank->cause = exit_code; };
  const bool as_json = context.config.report.log_format == "json";
  options.end_process = [status = context.status, as_json](report::Failure failure) {
    failure.as_json = as_json;
    const std::string run_directory = status->has_run_directory ? status->run_directory : "";
    report::ReportFailure(failure, run_directory);
    if (status->uses_nccl && !run_directory.empty()) {
      const std::string name = device::kFlightRecordPrefix + std::to_string(failure.rank);
      device::WriteFlightRecord(report::RunDirectory(run_directory).logs / name, device::LoadCudaPlugin().flight_record,
                                kFlightRecordPatience);
    }
    _exit(static_cast<int>(failure.code));  // runs no destructors, since the main thread may hang in anything
  };
  return options;
}

void SayNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) report::LogInfo(note);
}

// Returns rank 0's indexes on every rank. Sends a list of their sizes, then pieces for the store.
data::SharedIndexes ShareIndexes(const data::SharedIndexes& mine, distributed::Rendezvous& rendezvous) {
  nlohmann::json sizes = nlohmann::json::object();
  for (const auto& [split, bytes] : mine) sizes[split] = bytes.size();
  sizes = nlohmann::json::parse(rendezvous.ShareFromFirst("indexes", sizes.dump()));
  data::SharedIndexes indexes = mine;
  for (const auto& [split, size] : sizes.items()) {
    std::string& bytes = indexes[split];
    bytes.resize(size.get<size_t>());
    for (size_t at = 0; at < bytes.size(); at += distributed::kPieceBytes) {
      const std::string key = "index/" + split + "/" + std::to_string(at);
      const std::string piece = rendezvous.ShareFromFirst(key, bytes.substr(at, distributed::kPieceBytes));
      bytes.replace(at, piece.size(), piece);
    }
  }
  return indexes;
}

// What the linker has written of the program's contents, read from its image in memory.
size_t Padded(size_t bytes) { return (bytes + 3) / 4 * 4; }

std::string BuildIdIn(const char* notes, size_t bytes) {
  for (size_t offset = 0; offset + sizeof(ElfW(Nhdr)) <= bytes;) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes + offset, sizeof note);
    const char* name = notes + offset + sizeof note;
    const char* content = name + Padded(note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      std::string text;
      for (size_t i = 0; i < note.n_descsz; ++i) text += report::Format("%02x", static_cast<uint8_t>(content[i]));
      return text;
    }
    offset += sizeof note + Padded(note.n_namesz) + Padded(note.n_descsz);
  }
  return "";
}

// The first object that dl_iterate_phdr visits is the program itself; returning 1 ends the iteration there.
int FindInProgram(dl_phdr_info* info, size_t, void* result) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const auto* notes =
        reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);  // NOLINT: as the format has it
    auto& id = *static_cast<std::string*>(result);
    if (id = BuildIdIn(notes, header.p_memsz); !id.empty()) break;
  }
  return 1;
}

// Returns the build id of this program (a hash of its contents) in hexadecimal, or "unknown" if it has none. Ranks
// compare it, because two builds may compute different numbers.
std::string BuildId() {
  std::string id;
  dl_iterate_phdr(&FindInProgram, &id);
  return id.empty() ? "unknown" : id;
}

// Returns the newest run in runs/ that an earlier attempt of this job began or went on with, by the same command; empty
// if there is none.
std::optional<std::filesystem::path> RunOfJob(const RunContext& context) {
  return report::NewestRun(config::kRuns, [&](const report::RunDirectory& run) { return IsOfJob(run, context); });
}

}  // namespace

void OpenLog(const RunContext& context) {
  report::InitializeLogging(context.launch.rank, context.launch.world_size, /*log_directory=*/"");
  SayNotes(context.notes);
}

void FindLastRun(RunContext& context) {
  config::RunConfig& run = context.config.run;
  if (run.resume != "last" || !run.dir.empty()) return;
  const auto own = context.launch.restart_count > 0 ? RunOfJob(context) : std::nullopt;
  const auto found = own ? own : report::NewestRun(config::kRuns);
  if (!found && context.launch.rank == 0) {
    throw UsageError("--resume=last: there is no run in " + std::filesystem::absolute(config::kRuns).string(),
                     "name it with --run_dir, or start dtrain_main in the folder that contains runs/");
  }
  run.resume = "auto";
  if (found) run.dir = found->string();
}

std::string DefaultRunDirectory(const RunContext& context, bool restarted, std::vector<std::string>& notes) {
  if (restarted) {
    if (const auto own = RunOfJob(context)) return own->string();
    notes.emplace_back("this job was started again, but there is no run of it in runs/: a new one begins");
  }
  return report::MakeDefaultRunDirectory(config::kRuns, context.config.model.name, std::time(nullptr)).string();
}

Session::Session(const RunContext& run_context)
    : context(run_context),
      place(device::ChooseDevice(run_context.launch, run_context.config.ranks.backend,
                                 run_context.config.precision.name)),
      device(place.device),
      run_directory(run_context.config.run.dir),
      restarted(run_context.launch.restart_count > 0) {
  const launch::Launch& launch = context.launch;
  if (config::IsElastic(context.config) && device.is_cpu()) {
    device::UseThreads(1);  // how a sum is divided among threads changes its bits
  } else {
    device::UseShareOfCores(launch);
  }
  const models::Family* family = models::FindFamily(context.config.model.name);
  device::ChooseAlgorithms(/*deterministic=*/context.config.ranks.deterministic != "off",
                           /*tolerates_others=*/family == nullptr || family->pools_maxima);
  const bool training = context.config.run.mode == "train";
  // With --backend=nccl even a single rank uses NCCL, so that the code for several ranks can be tried on one GPU.
  if (launch.world_size > 1 || context.config.ranks.backend == "nccl") {
    context.status->meets_ranks = true;
    const distributed::RendezvousOptions options = {.launch = launch,
                                                    .listen_fd = context.listen_fd,
                                                    .init_timeout_seconds = context.config.ranks.init_timeout_seconds};
    rendezvous = std::make_unique<distributed::Rendezvous>(options, ControlOptionsFor(context));
    control = rendezvous->control();
    restarted = restarted || rendezvous->was_started_before();
  } else {
    control = std::make_shared<control::ControlPlane>(&loop::StopRequested);
  }
  context.status->meets_ranks = false;
  context.status->control = control;
  std::vector<std::string> notes = context.notes;
  if (training && launch.rank == 0 && run_directory.empty()) {
    run_directory = DefaultRunDirectory(context, restarted, notes);
  }
  if (training && launch.rank == 0) {
    const report::RunDirectory taken(run_directory);
    TakeRunDirectory(taken, PatienceForLock(context, restarted), lock);
    // An attempt that has ended before it began has left another run there, with which this job does not go on.
    const bool begins_anew = context.config.run.resume != "auto" && !MayBeOfJob(taken, context);
    restarted = restarted && !begins_anew;
  }
  if (rendezvous) run_directory = rendezvous->ShareFromFirst("run_directory", run_directory);
  const report::RunDirectory files(run_directory);
  // An evaluation that fails must not leave a report in the directory of the run or checkpoint that it evaluates.
  if (training || !data::IsRun(run_directory)) {
    context.status->run_directory = run_directory;
    context.status->has_run_directory = true;
  }
  const bool logs_to_files = launch.world_size > 1 && training;
  const bool silent =
      logs_to_files && launch.forked && launch.rank != 0 && report::SendOutputTo(files.log(launch.rank));
  report::InitializeLogging(launch.rank, launch.world_size, logs_to_files && !silent ? files.logs.string() : "");
  if (lock && !lock->warning().empty()) report::LogWarning(lock->warning());
  if (launch.rank == 0) SayNotes(notes);
  const std::string& precision = context.config.precision.name;
  if (device.is_cpu() && precision != "fp32" && launch.rank == 0) {
    report::LogWarning(precision == "tf32" ? "--precision=tf32 is fp32 on a CPU"
                                           : "--precision=" + precision + " is for GPUs: a CPU works, but slowly");
  }
}

tasks::DataSets Session::OpenData(const config::Config& config, const data::Classes& known) const {
  const tasks::TaskKind& kind = tasks::KindOf(config);
  data::SharedIndexes indexes;
  tasks::DataSets data;
  const bool waits = context.launch.rank != 0;
  if (!waits) {
    data = kind.OpenData(config, known, &indexes);
    tasks::LookThrough(data, config);
  }
  if (!rendezvous) return data;
  indexes = ShareIndexes(indexes, *rendezvous);
  if (waits) data = kind.OpenData(config, known, &indexes);
  return data;
}

void Session::Connect(const config::Config& config, const nlohmann::json& identity) {
  if (!rendezvous) {
    communicator = std::make_unique<distributed::Communicator>();
    return;
  }
  nlohmann::json common = config::ToJson(config);
  for (const std::string& flag : config::FlagsWith(&config::FlagTraits::own_to_each_rank)) common.erase(flag);
  common.update(identity);
  common["build"] = BuildId();
  // Ranks on GPUs compare them, unless they may share them, and meet over NCCL; another rank would wait elsewhere.
  const std::string gpu = context.launch.may_share_gpus ? "cuda, NCCL_MULTI_RANK_GPU_ENABLE=1" : "cuda";
  common["device"] = device.is_cpu() ? "cpu" : gpu;
  rendezvous->WaitForAll(JsonText(common));
  if (context.address_file != nullptr) context.address_file->Remove();
  if (device.is_cuda()) {
    if (!context.launch.may_share_gpus) {
      distributed::RequireDistinctGpus(*rendezvous, place.gpu, distributed::MachineId());
    }
    const std::string dumps = run_directory.empty() ? "" : report::RunDirectory(run_directory).logs.string();
    const bool on_one_machine = context.launch.local_world_size == context.launch.world_size;
    device::Apply(device::NcclEnvironment(dumps, context.config.ranks.comm_timeout_seconds, on_one_machine));
    context.status->uses_nccl = true;
  }
  communicator =
      std::make_unique<distributed::Communicator>(*rendezvous, device, context.config.ranks.comm_timeout_seconds);
}

}  // namespace dtrain::modes
