// What a training needs of memory and disk, against what there is. A disk that is too small would end the run at its
// first checkpoint, and all that was learned until then would be lost.
#pragma once

#include <c10/core/Device.h>

#include <filesystem>

#include "trainer/config/batch_sizes.h"
#include "trainer/config/config.h"
#include "trainer/launch/launch.h"
#include "trainer/tasks/task.h"

namespace dtrain::modes {

inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// Estimates the memory of a rank in bytes: weights, gradients, the optimizer's state, the average, a teacher's weights,
// and the activations that the forward pass keeps for the backward pass.
double MemoryNeedOf(const config::Config& config, tasks::Task& task, const config::BatchSizes& batch);

// Throws Error (exit code 7) if `needed` bytes a rank cannot fit into the memory of this machine, or of the GPU.
void RequireMemory(double needed, const launch::Launch& launch, at::Device device);

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
