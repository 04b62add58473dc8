// The first launcher that matches (launchers.cc) wins; what holds for all of them is checked here. Nothing asks the
// system, so tests try every launcher with made-up environments.
#include "trainer/launch/launch.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "data/joined.h"
#include "data/whole_number.h"
#include "trainer/errors.h"
#include "trainer/launch/detectors.h"
#include "trainer/launch/run_token.h"

namespace dtrain::launch {
namespace {

// --nnodes alone starts nothing. It is the number of machines on which the user expects the launcher to have started.
void RequireExpectedNodes(const Facts& facts, const Launch& launch) {
  const std::string& text = facts.ranks.nnodes;
  if (text.empty()) return;
  const NodeCount expected = ParseNodeCount(text, "--nnodes", "--nnodes=" + text);
  if (launch.nnodes >= expected.minimum && launch.nnodes <= expected.maximum) return;
  if (!launch.launcher.is_one) {
    throw UsageError("the ranks are half set: --nnodes=" + text + " given, --node_rank, --master_addr missing",
                     "give all of them on every machine, or start with torchrun, mpirun or srun");
  }
  throw UsageError(
      "--nnodes=" + text + " contradicts the " + CountOf(launch.nnodes, "machine") + " of " + launch.launcher.name,
      "seen: " + launch.seen);
}

void RequireNoGpuTwice(const Environment& environment) {
  const std::string visible = ValueOf(environment, "CUDA_VISIBLE_DEVICES");
  std::istringstream list(visible);
  std::set<std::string> known;
  for (std::string name; std::getline(list, name, ',');) {
    if (known.insert(name).second) continue;
    throw UsageError("two ranks would share one GPU: CUDA_VISIBLE_DEVICES=" + visible + " names " + name + " twice",
                     "name each GPU once");
  }
}

// Throws UsageError if the numbers show that a rank has no GPU of its own. Physical GPUs are not known here.
void RequireAGpuEach(const Facts& facts, const Launch& launch) {
  if (facts.ranks.backend == "gloo" || facts.machine.gpus == 0 || launch.may_share_gpus) return;
  RequireNoGpuTwice(facts.environment);
  const int first = launch.gpu >= 0 ? launch.gpu : launch.local_rank;
  const int needed = std::max(launch.spawns, first + 1);
  if (needed <= facts.machine.gpus) return;
  const std::string visible = ValueOf(facts.environment, "CUDA_VISIBLE_DEVICES");
  const std::string limit = visible.empty() ? "" : " (CUDA_VISIBLE_DEVICES=" + visible + ")";
  throw UsageError((launch.spawns > 0 ? std::to_string(launch.spawns) + " local ranks need as many GPUs"
                                      : "local rank " + std::to_string(launch.local_rank) + " has no GPU") +
                       ": this machine shows " + std::to_string(facts.machine.gpus) + limit,
                   "start fewer local ranks, check CUDA_VISIBLE_DEVICES, or run on the CPU with --backend=gloo" +
                       (launch.seen.empty() ? "" : "; seen: " + launch.seen));
}

// Returns the number of restarts by a scheduler. The job is still the same, so the files that it wrote must be kept.
int RequeueCount(const Environment& environment) {
  const Variables variables(environment, {"SLURM_RESTART_COUNT", "AWS_BATCH_JOB_ATTEMPT"});
  return variables.Number("SLURM_RESTART_COUNT", 0, kMaxRanks).value_or(0) +
         variables.Number("AWS_BATCH_JOB_ATTEMPT", 1, kMaxRanks).value_or(1) - 1;
}

}  // namespace

Environment ReadEnvironment() {
  Environment result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

std::string ValueOf(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

Launch DetectLaunch(const config::RanksConfig& ranks, const Environment& environment, const Machine& machine) {
  const Facts facts{ranks, environment, machine};
  Launch launch = FirstMatch(facts);
  launch.may_share_gpus = ValueOf(environment, "NCCL_MULTI_RANK_GPU_ENABLE") == "1";
  RequireExpectedNodes(facts, launch);
  RequireAGpuEach(facts, launch);
  launch.restart_count += RequeueCount(environment);
  launch.token = GivenToken(ranks, environment);
  return launch;
}

std::optional<TimeLimit> FindTimeLimit(const std::optional<double>& max_hours, const Environment& environment,
                                       std::time_t now) {
  constexpr double kReserve = 180;  // for the last step and the save
  if (max_hours) {
    if (*max_hours == 0) return std::nullopt;
    return TimeLimit{3600 * *max_hours, "--max_hours"};
  }
  // In seconds since 1970.
  const auto end = data::WholeNumber<int64_t>(ValueOf(environment, "SLURM_JOB_END_TIME"));
  if (!end || *end <= now) return std::nullopt;
  const auto left = static_cast<double>(*end - now);
  return TimeLimit{std::max(left - kReserve, left / 2), "the end of the Slurm job"};
}

}  // namespace dtrain::launch
