// The settings of c10d's NCCL backend: how it behaves when a peer is lost, and over which interface ranks of one
// machine connect. c10d and NCCL read them from environment variables only.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dtrain::device {

using EnvironmentSettings = std::vector<std::pair<std::string, std::string>>;  // names and values of variables

// With these settings a collective that fails or times out ends this rank (exit code 4) within seconds, after c10d has
// written its flight record to the file `nccl-flight-recorder-RANK` in `dump_folder` (no file if that is empty).
// `comm_timeout_seconds` limits how long c10d's watchdog itself may hang in the driver; the timeout of collectives is
// given to the process group. If `on_one_machine`, all ranks are on this machine and connect over the loopback
// interface, which may be the only one that works.
EnvironmentSettings NcclEnvironment(const std::string& dump_folder, double comm_timeout_seconds, bool on_one_machine);

// Whether NCCL has been told by NCCL_MULTI_RANK_GPU_ENABLE=1 that ranks may share a GPU (NCCL 2.30 or newer). It is
// slow, but several ranks can be tried on a machine with one GPU.
bool RanksMayShareGpus();

// Sets the variables that the user has not set. To be called before the process group is made.
void Apply(const EnvironmentSettings& settings);

}  // namespace dtrain::device
