#include "trainer/modes/needs.h"

#include <ATen/DeviceAccelerator.h>

#include <ranges>
#include <string>
#include <system_error>
#include <vector>

#include "data/machine/limits.h"
#include "trainer/errors.h"
#include "trainer/loop/step_computation.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/precision.h"
#include "trainer/report/log.h"
#include "trainer/report/run_directory.h"
#include "trainer/weights/module_state.h"

namespace dtrain::modes {
namespace {
namespace fs = std::filesystem;

std::string Size(double bytes) {
  constexpr double kMiB = 1024.0 * 1024.0, kManyMiB = 10'000;
  return bytes >= kManyMiB * kMiB ? report::Format("%.1f GiB", bytes / kGiB) : report::Format("%.0f MiB", bytes / kMiB);
}

double BytesOf(const auto& tensors) {
  double bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<double>(tensor.nbytes());
  return bytes;
}

double StateBytes(const config::Config& config, const torch::nn::Module& module) {
  return static_cast<double>(optim::OptimizerStateBytes(config.optimizer, weights::ParametersOf(module),
                                                        loop::FactsOfParameters(config, module)));
}

// The bytes of the files in the run's checkpoints/, which new ones take the place of.
double KeptBytes(const fs::path& run_directory) {
  double bytes = 0;
  std::error_code error;
  fs::recursive_directory_iterator entry(run_directory / "checkpoints", error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code no_file;
    if (entry->is_regular_file(no_file)) bytes += static_cast<double>(entry->file_size(no_file));
  }
  return bytes;
}

// The memory in bytes that the ranks of this machine could have at most, as far as it is known; on a GPU, a rank.
double MemoryOf(at::Device device) {
  if (device.is_cpu()) return static_cast<double>(data::AvailableMemory());
  return static_cast<double>(at::accelerator::getMemoryInfo(device.index()).second);
}

}  // namespace

double MemoryNeedOf(const config::Config& config, tasks::Task& task, const config::BatchSizes& batch) {
  const std::vector<optim::NamedTensor> parameters = weights::ParametersOf(task.module());
  const double weights = BytesOf(task.module().parameters()), gradients = BytesOf(parameters | std::views::values);
  const double teacher = task.teacher() != nullptr ? BytesOf(task.teacher()->parameters()) : 0;
  const double state = weights + gradients + teacher + StateBytes(config, task.module());
  const double average = config.optimizer.ema_decay > 0 ? weights : 0;
  constexpr double kSumsOfShards = 4;  // see distributed::ShardSum
  const double sums = batch.elastic ? kSumsOfShards * gradients : 0;
  const auto element = static_cast<double>(c10::elementSize(optim::PrecisionNamed(config.precision.name).products));
  return state + average + sums +
         element * static_cast<double>(task.CostOfSample().activation_elements) * static_cast<double>(batch.batch_size);
}

// A rank that was named by hand or by another launcher may be of other machines, which the memory of this one does not
// judge.
void RequireMemory(double needed, const launch::Launch& launch, at::Device device) {
  const bool is_all_here = !launch.launcher.is_one || launch.spawns == launch.world_size;
  if (!is_all_here) return;
  if (device.is_cpu()) needed *= launch.local_world_size;
  const double there = MemoryOf(device);
  if (needed <= there) return;
  throw Error(ExitCode::kOutOfMemory,
              report::Format("training needs about %.1f GiB of memory, and %s has %.1f GiB", needed / kGiB,
                             device.is_cpu() ? "this machine" : "the GPU", there / kGiB),
              "lower --batch_size (--grad_accum_steps keeps the global batch), --image_size or --tokens_per_sample");
}

DiskNeeds DiskNeedsOf(const config::Config& config, tasks::Task& task, bool validates) {
  const double weights = BytesOf(task.module().parameters());  // frozen ones, too
  const double average = config.optimizer.ema_decay > 0 ? weights : 0;
  const double checkpoint = weights + average + StateBytes(config, task.module());
  const double best = validates ? weights : 0;
  return {checkpoint, static_cast<double>(config.run.keep_checkpoints + 1) * checkpoint + weights + average + best};
}

void RequireDisk(const fs::path& run_directory, const DiskNeeds& needs) {
  std::error_code error;
  const fs::path folder = report::NearestFolder(run_directory);
  const fs::space_info space = fs::space(folder, error);
  if (error || space.capacity == 0) return;  // whoever writes there says why; some mounted buckets have no size
  const auto free = static_cast<double>(space.available);
  const std::string there = folder.string() + " has " + Size(free) + " free";
  if (free < needs.checkpoint) {
    throw StorageError(there + ", but a checkpoint takes about " + Size(needs.checkpoint) + ": none could be saved",
                       "free space, or name a --run_dir on another disk");
  }
  if (free + KeptBytes(run_directory) >= needs.whole) return;
  report::LogWarning(there + ", but the run will write about " + Size(needs.whole) +
                     ": free space, lower --keep_checkpoints, or name a --run_dir on another disk");
}

}  // namespace dtrain::modes
