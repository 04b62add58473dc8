// The settings of c10d's NCCL backend: how it behaves when a peer is lost, and over which interface ranks of one
// machine connect; c10d and NCCL read them from environment variables only. And c10d's record of the last collectives,
// which shows which rank did not enter which collective.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
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

// Sets the variables that the user has not set. To be called before the process group is made.
void Apply(const EnvironmentSettings& settings);

// The file's name is this prefix and the rank. c10d names it like this, and torchfrtrace expects that name.
constexpr const char* kFlightRecordPrefix = "nccl-flight-recorder-";

// Writes the text that `record` returns to `file`, in a thread of its own: c10d itself writes it only when its own
// watchdog ends a rank, and the control plane usually ends the rank earlier. Meant for the last moments of a process:
// ignores every error, and returns after `patience` at the latest, because `record` asks the GPU, which may hang. The
// thread is detached and may go on after that.
void WriteFlightRecord(const std::filesystem::path& file, std::function<std::string()> record,
                       std::chrono::milliseconds patience) noexcept;

}  // namespace dtrain::device
