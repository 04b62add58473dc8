// How c10d's NCCL behaves when a peer is lost, and how ranks of one machine meet. It takes these settings from
// environment variables only.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dtrain::distributed {

using EnvironmentSettings = std::vector<std::pair<std::string, std::string>>;

// A collective that fails or times out ends this rank (exit code 4) within seconds, after writing what c10d's flight
// recorder saw to files `nccl-flight-recorder-RANK` in `dump_folder` (empty: no files). The collectives' own timeout is
// given to the process group; `comm_timeout_seconds` is for c10d's watchdog where that itself hangs, in the driver.
// `on_one_machine`: all ranks are on this one, and meet on the loopback interface, which may be the only one that
// works.
EnvironmentSettings NcclEnvironment(const std::string& dump_folder, double comm_timeout_seconds, bool on_one_machine);

// Sets what the user has not set. Before the process group is made.
void Apply(const EnvironmentSettings& settings);

}  // namespace dtrain::distributed
