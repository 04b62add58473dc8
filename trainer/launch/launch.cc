// Launch detection as an ordered list of rows, one function per launcher: the first that recognises itself wins. Most
// specific first, because outer launchers leak their variables into what they start. Nothing here asks the system, so
// every row is tested with made-up environments.
#include "trainer/launch/launch.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <limits>
#include <optional>
#include <vector>

#include "trainer/errors.h"

namespace dtrain::launch {
namespace {

constexpr int kMaxRanks = 1'000'000;

struct Facts {
  const config::RanksConfig& ranks;
  const Environment& environment;
  int devices;
};

using Detector = std::optional<Launch> (*)(const Facts&);

std::optional<int> ParseNumber(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// What --nproc_per_node says; nothing where it was not given, or leaves the choice to the launcher (auto).
std::optional<int> GivenProcesses(const Facts& facts) {
  const std::string& text = facts.ranks.nproc_per_node;
  if (text.empty() || text == "auto") return std::nullopt;
  const auto number = ParseNumber(text);
  if (!number || *number < 1 || *number > 1024) {
    throw UsageError("--nproc_per_node=" + text + ": expected auto, or a whole number, 1 to 1024");
  }
  return number;
}

// Ranks of one machine where no variable says it: as the flag says, or one per device, or all on this machine.
int AssumedLocalWorldSize(const Facts& facts, int world_size) {
  if (const auto given = GivenProcesses(facts)) return *given;
  return std::min(facts.devices > 0 ? facts.devices : world_size, world_size);
}

void RequireBelow(int value, int limit, const std::string& value_name, const std::string& limit_name,
                  const std::string& seen) {
  if (value >= 0 && value < limit) return;
  throw UsageError(value_name + " (" + std::to_string(value) + ") is not from 0 to " + limit_name + " - 1 (" +
                       std::to_string(limit - 1) + ")",
                   "seen: " + seen);
}

// --- 1: explicit flags
// ------------------------------------------------------------------------------------------------

int Narrow(int64_t value) { return static_cast<int>(std::clamp<int64_t>(value, -1, std::numeric_limits<int>::max())); }

void RequireCompleteFlags(const config::RanksConfig& ranks) {
  std::vector<std::string> set;
  std::vector<std::string> missing;
  const auto note = [&](const std::string& name, bool given, const std::string& value, bool needed) {
    if (given) set.push_back("--" + name + "=" + value);
    if (!given && needed) missing.push_back("--" + name);
  };
  const auto text = [](const std::optional<int64_t>& value) { return value ? std::to_string(*value) : ""; };
  const bool several = !ranks.world_size || *ranks.world_size > 1;
  note("rank", ranks.rank.has_value(), text(ranks.rank), true);
  note("world_size", ranks.world_size.has_value(), text(ranks.world_size), true);
  note("local_rank", ranks.local_rank.has_value(), text(ranks.local_rank), false);
  note("master_addr", !ranks.master_addr.empty(), ranks.master_addr, several);
  note("master_port", ranks.master_port.has_value(), text(ranks.master_port), several);
  if (missing.empty()) return;
  throw UsageError("the ranks are half set: " + Joined(set) + " given, " + Joined(missing) + " missing",
                   "give all of them to every process, or none and start with torchrun or --nproc_per_node");
}

std::optional<Launch> FromFlags(const Facts& facts) {
  const config::RanksConfig& ranks = facts.ranks;
  if (!ranks.rank && !ranks.world_size && !ranks.local_rank) return std::nullopt;
  RequireCompleteFlags(ranks);
  const std::string seen =
      "--rank=" + std::to_string(*ranks.rank) + ", --world_size=" + std::to_string(*ranks.world_size);
  Launch launch;
  launch.launcher = "flags";
  launch.world_size = Narrow(*ranks.world_size);
  if (launch.world_size < 1 || launch.world_size > kMaxRanks) {
    throw UsageError("--world_size is not from 1 to " + std::to_string(kMaxRanks), "seen: " + seen);
  }
  launch.rank = Narrow(*ranks.rank);
  RequireBelow(launch.rank, launch.world_size, "--rank", "--world_size", seen);
  const int local = AssumedLocalWorldSize(facts, launch.world_size);
  launch.local_rank = ranks.local_rank ? Narrow(*ranks.local_rank) : launch.rank % local;
  const bool local_known = GivenProcesses(facts).has_value();
  RequireBelow(launch.local_rank, local_known ? local : launch.world_size, "--local_rank",
               local_known ? "--nproc_per_node" : "--world_size", seen);
  launch.local_world_size = std::min(std::max(local, launch.local_rank + 1), launch.world_size);
  launch.nnodes = (launch.world_size + launch.local_world_size - 1) / launch.local_world_size;
  launch.node_rank = launch.rank / launch.local_world_size;
  if (!ranks.master_addr.empty()) launch.master_addr = ranks.master_addr;
  launch.master_port = static_cast<int>(ranks.master_port.value_or(0));
  return launch;
}

// --- 2: torchrun, and what imitates it
// ---------------------------------------------------------------------------------

// The variables of one launcher. Empty ones count as unset: container tools pass them on that way.
class Variables {
 public:
  Variables(const Environment& environment, std::vector<std::string> names)
      : environment_(environment), names_(std::move(names)) {}

  std::string Text(const std::string& name) const {
    const auto found = environment_.find(name);
    return found == environment_.end() ? "" : found->second;
  }
  bool Has(const std::string& name) const { return !Text(name).empty(); }

  std::optional<int> Number(const std::string& name, int minimum, int maximum) const {
    if (!Has(name)) return std::nullopt;
    const auto number = ParseNumber(Text(name));
    if (number && *number >= minimum && *number <= maximum) return number;
    throw UsageError(name + "=" + Text(name) + ": expected a whole number, " + std::to_string(minimum) + " to " +
                         std::to_string(maximum),
                     "seen: " + Seen());
  }

  std::vector<std::string> Missing(const std::vector<std::string>& names) const {
    std::vector<std::string> missing;
    for (const std::string& name : names) {
      if (!Has(name)) missing.push_back(name);
    }
    return missing;
  }

  // "RANK=0, WORLD_SIZE=2"
  std::string Seen() const {
    std::vector<std::string> seen;
    for (const std::string& name : names_) {
      if (Has(name)) seen.push_back(name + "=" + Text(name));
    }
    return Joined(seen);
  }

 private:
  const Environment& environment_;
  std::vector<std::string> names_;
};

void RequireNoContradiction(const Facts& facts, const Launch& launch, const std::string& seen) {
  const auto given = GivenProcesses(facts);
  if (given && *given != launch.local_world_size) {
    throw UsageError("--nproc_per_node=" + std::to_string(*given) + " contradicts LOCAL_WORLD_SIZE=" +
                         std::to_string(launch.local_world_size) + ": torchrun has started the local ranks already",
                     "leave --nproc_per_node to torchrun; seen: " + seen);
  }
  const std::string& address = facts.ranks.master_addr;
  const auto& port = facts.ranks.master_port;
  if ((!address.empty() && address != launch.master_addr) || (port && *port != launch.master_port)) {
    throw UsageError("--master_addr and --master_port contradict torchrun's variables",
                     "leave them to torchrun; seen: " + seen);
  }
}

std::optional<Launch> FromTorchrun(const Facts& facts) {
  const Variables variables(
      facts.environment, {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
                          "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE"});
  if (!variables.Has("RANK") && !variables.Has("LOCAL_RANK") && !variables.Has("WORLD_SIZE")) return std::nullopt;
  const std::string seen = variables.Seen();
  const auto missing = variables.Missing({"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"});
  if (!missing.empty()) {
    throw UsageError("torchrun's variables are half set: " + seen + " set, " + Joined(missing) + " missing",
                     "start with torchrun --no-python, set all of them, or unset those that are set");
  }
  Launch launch;
  launch.launcher = "torchrun";
  launch.world_size = *variables.Number("WORLD_SIZE", 1, kMaxRanks);
  launch.rank = *variables.Number("RANK", 0, kMaxRanks);
  launch.local_rank = *variables.Number("LOCAL_RANK", 0, kMaxRanks);
  launch.local_world_size =
      variables.Number("LOCAL_WORLD_SIZE", 1, kMaxRanks)
          .value_or(std::max(AssumedLocalWorldSize(facts, launch.world_size), launch.local_rank + 1));
  RequireBelow(launch.rank, launch.world_size, "RANK", "WORLD_SIZE", seen);
  RequireBelow(launch.local_rank, launch.local_world_size, "LOCAL_RANK", "LOCAL_WORLD_SIZE", seen);
  RequireBelow(launch.local_world_size - 1, launch.world_size, "LOCAL_WORLD_SIZE - 1", "WORLD_SIZE", seen);
  const bool even = launch.world_size % launch.local_world_size == 0;
  const int rounded_up = (launch.world_size + launch.local_world_size - 1) / launch.local_world_size;
  const auto groups = variables.Number("GROUP_WORLD_SIZE", 1, kMaxRanks);
  launch.nnodes = even ? rounded_up : groups.value_or(rounded_up);
  launch.node_rank = variables.Number("GROUP_RANK", 0, kMaxRanks).value_or(launch.rank / launch.local_world_size);
  launch.master_addr = variables.Text("MASTER_ADDR");
  launch.master_port = *variables.Number("MASTER_PORT", 1, 65535);
  launch.restart_count = variables.Number("TORCHELASTIC_RESTART_COUNT", 0, kMaxRanks).value_or(0);
  launch.agent_store = variables.Text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  RequireNoContradiction(facts, launch, seen);
  return launch;
}

// --- last: this machine alone
// ------------------------------------------------------------------------------------------

Launch ThisMachine(const Facts& facts) {
  Launch launch;
  int processes = GivenProcesses(facts).value_or(1);
  if (facts.ranks.nproc_per_node == "auto") processes = std::max(facts.devices, 1);
  launch.world_size = processes;
  launch.local_world_size = processes;
  launch.spawns = processes > 1 ? processes : 0;
  if (!facts.ranks.master_addr.empty()) launch.master_addr = facts.ranks.master_addr;
  launch.master_port = static_cast<int>(facts.ranks.master_port.value_or(0));
  return launch;
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

Launch DetectLaunch(const config::RanksConfig& ranks, const Environment& environment, int devices) {
  const Facts facts{ranks, environment, devices};
  // A new launcher is one more function here, most specific first.
  for (const Detector detect : {FromFlags, FromTorchrun}) {
    if (const auto launch = detect(facts)) return *launch;
  }
  return ThisMachine(facts);
}

}  // namespace dtrain::launch
