// The disk of the run directory, which need not exist: nothing is left behind.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "trainer/doctor/finding.h"

namespace dtrain::doctor {

struct DiskFacts {
  std::filesystem::path folder;  // the run directory, or the nearest folder above it that exists
  int64_t free_bytes = 0;
  double bytes_per_second = 0;  // written and synced
};
Finding JudgeDisk(const DiskFacts& facts);

// Writes some megabytes there, syncs and removes them. Throws StorageError.
DiskFacts MeasureDisk(const std::filesystem::path& run_directory);

}  // namespace dtrain::doctor
