// The checks come in the order of a start: launcher, machine, other ranks, data. Data come last since they may take
// longer to open than the other ranks wait. Only the first rank of a machine checks machine and data, since the others
// would find the same.
#include "trainer/doctor/doctor.h"

#include <ATen/ops/ones.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "data/shallow_json.h"
#include "data/shown.h"
#include "trainer/config/flags.h"
#include "trainer/device/device.h"
#include "trainer/launch/address_file.h"
#include "trainer/loop/stop_signal.h"
#include "trainer/modes/outputs.h"
#include "trainer/modes/session.h"
#include "trainer/report/log.h"
#include "trainer/report/metrics_endpoint.h"
#include "trainer/report/run_directory.h"

namespace dtrain::doctor {
namespace {

namespace fs = std::filesystem;
using report::SecondsSince1970;

constexpr double kPatienceSeconds = 60;

const char* NameOf(Verdict verdict) {
  if (verdict == Verdict::kOk) return "ok";
  return verdict == Verdict::kWarning ? "warning" : "failed";
}

std::string AsText(const Finding& finding) {
  return report::Format("%-8s %-14s ", NameOf(finding.verdict), finding.check.c_str()) +
         Shown(finding.what + (finding.remedy.empty() ? "" : "; " + finding.remedy));
}

std::string AsJson(const Finding& finding, int rank) {
  nlohmann::ordered_json json = {{"check", finding.check}, {"verdict", NameOf(finding.verdict)},
                                 {"what", finding.what},   {"remedy", finding.remedy},
                                 {"rank", rank},           {"host", report::HostName()}};
  if (finding.verdict == Verdict::kFailed) json["exit_code"] = static_cast<int>(finding.code);
  return JsonText(json);
}

Finding TryMetricsPort(const config::ReportConfig& config) {
  return Tried("metrics port", [&] {
    const int port = static_cast<int>(config.metrics_port);
    const report::MetricsEndpoint tried(config.metrics_address, port, {});
    return Ok("metrics port", report::MetricsUrl(config.metrics_address, port) + " can be served");
  });
}

Finding TryThreads(const Threads& threads) {
  const int64_t wanted = 2 * (threads.compute_threads - 1) + threads.workers;
  try {
    device::RequireThreads(static_cast<int>(wanted));
  } catch (const std::system_error&) {
    return Failed("threads", ExitCode::kUsage, std::to_string(wanted) + " more threads cannot be started",
                  "raise the limit of processes (ulimit -u, a container's pids limit), or lower --workers");
  }
  return JudgeThreads(threads);
}

uint64_t LimitOf(__rlimit_resource resource) {
  rlimit limit{};
  getrlimit(resource, &limit);
  return limit.rlim_cur;
}

void ExamineMachine(const modes::RunContext& context, bool on_gpu, Findings& findings) {
  const launch::Launch& launch = context.launch;
  findings.Say(TryThreads(CountThreads(launch, context.config.data.workers)));
  findings.Say(JudgeOpenFiles(LimitOf(RLIMIT_NOFILE), launch.world_size));
  findings.Say(JudgeLockedMemory(LimitOf(RLIMIT_MEMLOCK), HasRdma()));
  std::error_code missing;  // the number is -1 then
  const auto shared_bytes = static_cast<int64_t>(fs::space("/dev/shm", missing).available);
  findings.Say(JudgeSharedMemory(shared_bytes, launch.local_world_size, on_gpu));
  if (context.config.run.mode == "train") {
    Finding disk = Tried("disk", [&] {
      if (launch.rank == 0) modes::RequireOutputs(context.config);
      return JudgeDisk(MeasureDisk(context.config.run.dir));
    });
    if (disk.verdict == Verdict::kFailed && disk.remedy.empty()) disk.remedy = "choose another --run_dir";
    findings.Say(disk);
  }
}

void TryData(const config::Config& config, Findings& findings) {
  if (config.run.mode != "train" && config.run.mode != "eval") return;
  try {
    ExamineData(config, findings);
  } catch (const Error& error) {
    findings.Say(Failed("data", error.code(), error.what(), error.hint()));
  }
}

// Connects to the other ranks as a run does, but without its run directory.
void ConnectRanks(const modes::RunContext& context, const launch::Machine& machine, Findings& findings) {
  modes::RunContext meeting = context;
  config::RanksConfig& ranks = meeting.config.ranks;
  meeting.config.run.mode = "eval";
  meeting.config.run.dir.clear();
  if (!config::WasGiven(meeting.config, "init_timeout")) ranks.init_timeout_seconds = kPatienceSeconds;
  ranks.comm_timeout_seconds = std::min(ranks.comm_timeout_seconds, ranks.init_timeout_seconds);

  const auto begin = std::chrono::steady_clock::now();
  const fs::path posted = launch::AddressFilePath(context.config.run.dir, context.launch.address_key);
  const bool posts = !context.launch.address_key.empty() && context.launch.rank == 0;
  std::optional<report::MadeFolders> made;
  if (posts) made.emplace(posted.parent_path());
  launch::AddressFile address_file(posted);
  launch::MeetThrough(address_file, machine, ranks.init_timeout_seconds, &loop::StopRequested, &meeting.launch,
                      &meeting.listen_fd);
  modes::Session session(meeting);
  session.Connect(meeting.config, nlohmann::json::object());
  const double first_ranks_clock =
      std::stod(session.rendezvous->ShareFromFirst("clock", std::to_string(SecondsSince1970())));
  const double off = SecondsSince1970() - first_ranks_clock;
  at::Tensor count = at::ones({1}, at::TensorOptions().device(session.device));
  session.communicator->Sum(count);
  const int counted = static_cast<int>(count.item<float>());
  findings.Say(Ok("meeting", report::Format("%d of %d ranks met after %.1f s and summed a tensor", counted,
                                            context.launch.world_size, report::SecondsSince(begin))));
  if (context.launch.rank != 0) findings.Say(JudgeClock(off));
  session.Leave();
}

}  // namespace

Finding Ok(const std::string& check, const std::string& what) { return {.check = check, .what = what}; }

Finding Warning(const std::string& check, const std::string& what, const std::string& remedy) {
  return {.check = check, .verdict = Verdict::kWarning, .what = what, .remedy = remedy};
}

Finding Failed(const std::string& check, ExitCode code, const std::string& what, const std::string& remedy) {
  return {.check = check, .verdict = Verdict::kFailed, .what = what, .remedy = remedy, .code = code};
}

Finding Tried(const std::string& check, const std::function<Finding()>& look) {
  try {
    return look();
  } catch (const Error& error) {
    return Failed(check, error.code(), error.what(), error.hint());
  }
}

void Findings::Say(const Finding& finding) {
  if (finding.verdict == Verdict::kFailed && code_ == ExitCode::kDone) code_ = finding.code;
  const std::string prefix = world_size_ > 1 ? "[rank " + std::to_string(rank_) + "] " : "";
  report::PrintAnswer(as_json_ ? AsJson(finding, rank_) : prefix + AsText(finding));
}

ExitCode Examine(const modes::RunContext& context, const launch::Machine& machine) {
  const launch::Launch& launch = context.launch;
  const config::Config& config = context.config;
  report::InitializeLogging(launch.rank, launch.world_size, /*log_directory=*/"");
  Findings findings(config.report.log_format == "json", launch.rank, launch.world_size);
  findings.Say(LauncherFound(launch));
  bool can_meet = launch.world_size > 1;
  if (can_meet) {
    const Finding address = JudgeAddress(launch, Resolve(launch.master_addr));
    can_meet = address.verdict != Verdict::kFailed;
    findings.Say(address);
    findings.Say(TryPort(launch, context.listen_fd >= 0));
    findings.Say(JudgeToken(launch));
  }
  if (launch.rank == 0 && config.report.metrics_port != 0) findings.Say(TryMetricsPort(config.report));
  bool on_gpu = false;
  findings.Say(LookAtDevice(launch, config, &on_gpu));
  if (on_gpu) {
    findings.Say(LookAtNccl());
    findings.Say(LookAtEfa(launch.nnodes));
  }
  if (launch.local_rank == 0) ExamineMachine(context, on_gpu, findings);
  if (can_meet) {
    try {
      ConnectRanks(context, machine, findings);
    } catch (const Error& error) {
      // The hint of PeerLostError is about a run's checkpoints, and of no use here.
      const std::string remedy = error.code() != ExitCode::kPeerLost
                                     ? error.hint()
                                     : "see the other ranks' findings; each rank must reach rank 0's address and port "
                                       "(nc -zv HOST PORT) and start within --init_timeout";
      findings.Say(Failed("meeting", error.code(), error.what(), remedy));
    }
  }
  if (launch.local_rank == 0) TryData(config, findings);
  return findings.code();
}

}  // namespace dtrain::doctor
