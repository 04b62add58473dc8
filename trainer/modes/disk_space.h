// What a run writes, against what the disk has: a disk that is too small would end the run at its first checkpoint, and
// all that was learned until then would be lost.
#pragma once

#include <filesystem>

#include "trainer/config/config.h"
#include "trainer/tasks/task.h"

namespace dtrain::modes {

// Bytes that the files of a run take, estimated from its weights and its optimizer's state.
struct DiskNeeds {
  double checkpoint = 0;  // one checkpoint
  double whole = 0;  // --keep_checkpoints and one more while it is written, the last and best weights, their average
};
DiskNeeds DiskNeedsOf(const config::Config& config, tasks::Task& task, bool validates);

// Throws StorageError if the file system of `run_directory`, which need not exist, has no room for a checkpoint; warns
// if it has none for all that a new run would write. What an earlier start has written is not needed again.
void RequireDisk(const std::filesystem::path& run_directory, const DiskNeeds& needs);

}  // namespace dtrain::modes
