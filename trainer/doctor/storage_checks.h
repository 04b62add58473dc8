// Checks of the disk of the run directory. The directory need not exist and is not made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "trainer/doctor/finding.h"

namespace dtrain::doctor {

struct DiskFacts {
  std::filesystem::path folder;  // the run directory, or the nearest folder above it that exists
  int64_t free_bytes = 0;
  double bytes_per_second = 0;  // measured with writing and syncing
};
Finding JudgeDisk(const DiskFacts& facts);

// Writes 16 MiB there, syncs and removes them. Throws StorageError.
DiskFacts MeasureDisk(const std::filesystem::path& run_directory);

}  // namespace dtrain::doctor
