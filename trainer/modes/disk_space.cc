#include "trainer/modes/disk_space.h"

#include <cstdio>
#include <string>
#include <system_error>
#include <vector>

#include "trainer/errors.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/report/log.h"
#include "trainer/weights/module_state.h"

namespace dtrain::modes {
namespace {
namespace fs = std::filesystem;

std::string Size(double bytes) {
  constexpr double kMiB = 1024.0 * 1024.0, kManyMiB = 10'000;
  char text[64];
  const bool is_large = bytes >= kManyMiB * kMiB;
  std::snprintf(text, sizeof(text), is_large ? "%.1f GiB" : "%.0f MiB", bytes / kMiB / (is_large ? 1024 : 1));
  return text;
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

}  // namespace

DiskNeeds DiskNeedsOf(const config::Config& config, tasks::Task& task, bool validates) {
  const std::vector<optim::NamedTensor> parameters = weights::ParametersOf(task.module());
  double weights = 0;
  for (const auto& [name, parameter] : parameters) weights += static_cast<double>(parameter.nbytes());
  const double average = config.optimizer.ema_decay > 0 ? weights : 0;
  const double checkpoint =
      weights + average + static_cast<double>(optim::OptimizerStateBytes(config.optimizer, parameters));
  const double best = validates ? weights : 0;
  return {checkpoint, static_cast<double>(config.run.keep_checkpoints + 1) * checkpoint + weights + average + best};
}

void RequireDisk(const fs::path& run_directory, const DiskNeeds& needs) {
  std::error_code error;
  fs::path folder = fs::absolute(run_directory, error);
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  const fs::space_info space = fs::space(folder, error);
  if (error) return;  // whoever writes there says why
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
