// The first launcher that matches (launchers.cc) wins; what holds for all of them is checked here, and here is what
// their functions share. Nothing asks the system, so tests try every launcher with made-up environments.
#include "trainer/launch/launch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "data/joined.h"
#include "data/whole_number.h"
#include "trainer/errors.h"
#include "trainer/launch/detectors.h"
#include "trainer/launch/local_address.h"
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
                     "give all of them on every machine, or start with one of " + NamesOfLaunchers());
  }
  throw UsageError(
      "--nnodes=" + text + " contradicts the " + CountOf(launch.nnodes, "machine") + " of " + launch.launcher.name,
      "seen: " + launch.seen);
}

// Throws UsageError if the numbers show that a rank has no GPU of its own. Physical GPUs are not known here.
void RequireAGpuEach(const Facts& facts, const Launch& launch) {
  if (facts.ranks.backend == "gloo" || facts.machine.gpus == 0 || launch.may_share_gpus) return;
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

constexpr size_t kMostNodes = 65'536;

[[noreturn]] void Refuse(const std::string& text, const std::string& why) {
  throw UsageError("the node list '" + text + "' cannot be read: " + why,
                   "set MASTER_ADDR or --master_addr to the host of rank 0, and unset the list");
}

// Cuts a list at the commas outside brackets.
std::vector<std::string> CutOutsideBrackets(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (depth < 0 || depth > 1) Refuse(text, "its brackets do not match");
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (depth != 0) Refuse(text, "its brackets do not match");
  return parts;
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
  launch.token = GivenToken(ranks, environment);
  return launch;
}

std::string LeaveLoopback(const Machine& machine, Launch* launch) {
  const std::string name = launch->master_addr;
  if (launch->nnodes == 1 || name.empty() || IsLoopback(name)) return "";
  std::string unused, first, reachable = machine.address;
  const Addresses found = Resolve(name, /*port=*/0, SOCK_STREAM, &unused);
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    const std::string address = Numeric(one->ai_addr, one->ai_addrlen);
    if (first.empty()) first = address;
    if (!IsLoopback(address)) reachable = address;
  }
  if (!IsLoopback(first) || IsLoopback(reachable)) return "";
  launch->master_addr = reachable;
  return "rank 0's name " + name + " is " + first + " on this machine, where no other machine comes: its ranks take " +
         reachable + "; --master_addr says which address all machines use";
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

void RequireBelow(int value, int limit, const std::string& value_name, const std::string& limit_name,
                  const std::string& seen) {
  if (value >= 0 && value < limit) return;
  throw UsageError(value_name + " (" + std::to_string(value) + ") is not from 0 to " + limit_name + " - 1 (" +
                       std::to_string(limit - 1) + ")",
                   "seen: " + seen);
}

std::string Variables::FirstSet(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    if (Has(name)) return name;
  }
  return "";
}

std::optional<int> Variables::Number(const std::string& name, int minimum, int maximum) const {
  if (!Has(name)) return std::nullopt;
  const auto number = data::WholeNumber<int>(Text(name));
  if (number && *number >= minimum && *number <= maximum) return number;
  throw UsageError(name + "=" + Text(name) + ": expected a whole number, " + std::to_string(minimum) + " to " +
                       std::to_string(maximum),
                   "seen: " + Seen());
}

void Variables::Require(const std::vector<std::string>& names, const std::string& launcher,
                        const std::string& hint) const {
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    if (!Has(name)) missing.push_back(name);
  }
  if (missing.empty()) return;
  throw UsageError(launcher + "'s variables are half set: " + Seen() + " set, " + Joined(missing) + " missing", hint);
}

std::string Variables::Seen() const {
  std::vector<std::string> seen;
  for (const std::string& name : names_) {
    if (Has(name)) seen.push_back(name + "=" + Text(name));
  }
  return Joined(seen);
}

std::optional<int> GivenProcesses(const config::RanksConfig& ranks) {
  const std::string& text = ranks.nproc_per_node;
  if (text.empty() || text == "auto") return std::nullopt;
  const auto number = data::WholeNumber<int>(text);
  if (!number || *number < 1 || *number > 1024) {
    throw UsageError("--nproc_per_node=" + text + ": expected auto, or a whole number, 1 to 1024");
  }
  return number;
}

int ProcessesPerNode(const Facts& facts, const std::string& otherwise, const std::string& name) {
  if (const auto given = GivenProcesses(facts.ranks)) return *given;
  if (facts.ranks.nproc_per_node == "auto" || otherwise.empty() || otherwise == "auto") {
    return std::max(facts.machine.gpus, 1);
  }
  if (otherwise == "cpu") return std::max(facts.machine.cores, 1);
  if (otherwise == "gpu") {
    if (facts.machine.gpus > 0) return facts.machine.gpus;
    throw UsageError(name + "=gpu, but " + facts.machine.why_no_gpu,
                     "set " + name + " or --nproc_per_node to auto or to a number");
  }
  const auto number = data::WholeNumber<int>(otherwise);
  if (number && *number >= 1 && *number <= 1024) return *number;
  throw UsageError(name + "=" + otherwise + ": expected auto, gpu, cpu, or a whole number, 1 to 1024");
}

int AssumedLocalWorldSize(const Facts& facts, int world_size) {
  if (const auto given = GivenProcesses(facts.ranks)) return *given;
  return std::min(facts.machine.gpus > 0 ? facts.machine.gpus : world_size, world_size);
}

NodeCount ParseNodeCount(const std::string& text, const std::string& name, const std::string& seen) {
  const size_t colon = text.find(':');
  const auto minimum = data::WholeNumber<int>(text.substr(0, colon));
  const auto maximum = colon == std::string::npos ? minimum : data::WholeNumber<int>(text.substr(colon + 1));
  if (minimum && maximum && *minimum >= 1 && *minimum <= *maximum && *maximum <= kMaxRanks) {
    return {*minimum, *maximum};
  }
  throw UsageError(name + "=" + text + ": expected a number of machines, or MIN:MAX", "seen: " + seen);
}

Launch NodeLevel(const Facts& facts, const std::string& seen, int nnodes, int node_rank, int processes,
                 const std::string& address, int port) {
  if (processes > kMaxRanks / nnodes) {
    throw UsageError(std::to_string(nnodes) + " machines with " + std::to_string(processes) +
                         " ranks each are more than " + std::to_string(kMaxRanks) + " ranks",
                     "check --nnodes and --nproc_per_node, or the launcher's variables for them");
  }
  Launch launch;
  launch.seen = seen;
  launch.nnodes = nnodes;
  launch.node_rank = node_rank;
  launch.local_world_size = processes;
  launch.world_size = nnodes * processes;
  launch.rank = node_rank * processes;
  if (processes > 1 || facts.ranks.max_restarts > 0) launch.spawns = processes;  // else it can be the only rank itself
  const std::string& given = facts.ranks.master_addr;
  if (!given.empty() || nnodes > 1) launch.master_addr = given.empty() ? address : given;
  if (facts.ranks.master_port || nnodes > 1)
    launch.master_port = static_cast<int>(facts.ranks.master_port.value_or(port));
  return launch;
}

Variables VariablesOf(const Facts& facts, const RankVariables& names) {
  std::vector<std::string> all = {names.rank,   names.local_rank, names.world_size, names.local_world_size,
                                  names.nnodes, "MASTER_ADDR",    "MASTER_PORT"};
  all.insert(all.end(), names.others.begin(), names.others.end());
  return {facts.environment, std::move(all)};
}

std::optional<Launch> RankLevel(const Facts& facts, const RankVariables& names) {
  const Variables variables = VariablesOf(facts, names);
  if (variables.FirstSet({names.rank, names.world_size}).empty()) return std::nullopt;
  variables.Require({names.rank, names.world_size, names.local_rank}, names.title, names.hint);
  Launch launch;
  launch.seen = variables.Seen();
  launch.world_size = *variables.Number(names.world_size, 1, kMaxRanks);
  launch.rank = *variables.Number(names.rank, 0, kMaxRanks);
  launch.local_rank = *variables.Number(names.local_rank, 0, kMaxRanks);
  const auto nodes = variables.Number(names.nnodes, 1, launch.world_size);
  const int assumed =
      nodes ? (launch.world_size + *nodes - 1) / *nodes : AssumedLocalWorldSize(facts, launch.world_size);
  launch.local_world_size =
      variables.Number(names.local_world_size, 1, kMaxRanks).value_or(std::max(assumed, launch.local_rank + 1));
  const std::string& of_machine = names.local_world_size.empty() ? "--nproc_per_node" : names.local_world_size;
  RequireBelow(launch.rank, launch.world_size, names.rank, names.world_size, launch.seen);
  RequireBelow(launch.local_rank, launch.local_world_size, names.local_rank, of_machine, launch.seen);
  RequireBelow(launch.local_world_size - 1, launch.world_size, of_machine + " - 1", names.world_size, launch.seen);
  RequireSameProcesses(facts, launch, names.title);
  launch.nnodes = nodes.value_or((launch.world_size + launch.local_world_size - 1) / launch.local_world_size);
  launch.node_rank = launch.rank / launch.local_world_size;
  return launch;
}

void RequireSameProcesses(const Facts& facts, const Launch& launch, const std::string& launcher) {
  const auto given = GivenProcesses(facts.ranks);
  if (!given || *given == launch.local_world_size) return;
  throw UsageError("--nproc_per_node=" + std::to_string(*given) + " contradicts the " +
                       std::to_string(launch.local_world_size) + " local ranks that " + launcher +
                       " has started already",
                   "leave --nproc_per_node out under " + launcher + "; seen: " + launch.seen);
}

std::string FirstNode(const std::string& text) {
  const std::string name = CutOutsideBrackets(text).front();
  if (name.empty()) Refuse(text, "a name is empty");
  std::string first;
  for (size_t at = 0; at < name.size();) {
    const size_t open = std::min(name.find('[', at), name.size());
    first += name.substr(at, open - at);
    if (open == name.size()) break;
    const size_t close = name.find(']', open);
    const std::string ranges = name.substr(open + 1, close - open - 1);
    const std::string number = ranges.substr(0, ranges.find_first_of("-,"));
    if (!data::WholeNumber<uint32_t>(number)) Refuse(text, "'" + ranges + "' is not a range");
    first += number;
    at = close + 1;
  }
  return first;
}

std::vector<int> ExpandCounts(const std::string& text) {
  std::vector<int> counts;
  for (const std::string& part : CutOutsideBrackets(text)) {
    const size_t times = part.find("(x");
    const auto count = data::WholeNumber<int>(part.substr(0, times));
    const bool repeated = times != std::string::npos && part.back() == ')';
    const auto repeat =
        repeated ? data::WholeNumber<int>(part.substr(times + 2, part.size() - times - 3)) : std::optional<int>(1);
    const bool plain = times == std::string::npos;
    if (!count || *count < 1 || !repeat || *repeat < 1 || !(plain || repeated))
      Refuse(text, "'" + part + "' is not a count");
    if (static_cast<size_t>(*repeat) > kMostNodes - counts.size()) Refuse(text, "it is too long");
    counts.insert(counts.end(), static_cast<size_t>(*repeat), *count);
  }
  return counts;
}

}  // namespace dtrain::launch
