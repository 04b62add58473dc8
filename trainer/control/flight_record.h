// c10d's record of the last collectives: which rank did not come to which one. c10d writes it when its own watchdog
// ends a rank, which the control plane mostly does before.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace dtrain::distributed {

// The file's name in the folder of logs is this and the rank: as c10d names it, and as torchfrtrace wants it.
constexpr const char* kFlightRecordPrefix = "nccl-flight-recorder-";

// Writes what `record` returns to `file`, for the last moments of a process: gives up after `patience` (it asks the
// GPU, which may hang) and where anything fails. What it started goes on in a thread then.
void WriteFlightRecord(const std::filesystem::path& file, std::function<std::string()> record,
                       std::chrono::milliseconds patience) noexcept;

}  // namespace dtrain::distributed
