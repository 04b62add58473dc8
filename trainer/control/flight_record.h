// Writes c10d's record of the last collectives, which shows which rank did not enter which collective. c10d itself
// writes it only when its own watchdog ends a rank, and the control plane usually ends the rank earlier.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace dtrain::control {

// The file's name is this prefix and the rank. c10d names it like this, and torchfrtrace expects that name.
constexpr const char* kFlightRecordPrefix = "nccl-flight-recorder-";

// Writes the text that `record` returns to `file`, in a thread of its own. Meant for the last moments of a process:
// ignores every error, and returns after `patience` at the latest, because `record` asks the GPU, which may hang. The
// thread is detached and may go on after that.
void WriteFlightRecord(const std::filesystem::path& file, std::function<std::string()> record,
                       std::chrono::milliseconds patience) noexcept;

}  // namespace dtrain::control
