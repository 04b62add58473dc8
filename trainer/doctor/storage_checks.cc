#include "trainer/doctor/storage_checks.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/errors.h"

namespace dtrain::doctor {
namespace fs = std::filesystem;
namespace {

constexpr size_t kProbeBytes = size_t{16} << 20;
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr double kMB = 1e6;

// Returns the nearest folder at or above `path` that exists.
fs::path NearestFolder(const fs::path& path) {
  std::error_code ignored;
  fs::path folder = fs::absolute(path.empty() ? "runs" : path, ignored).lexically_normal();
  while (!fs::exists(folder, ignored) && folder.has_parent_path() && folder != folder.parent_path()) {
    folder = folder.parent_path();
  }
  return folder;
}

// Removes a file when it goes out of scope.
class Removed {
 public:
  explicit Removed(fs::path path) : path_(std::move(path)) {}
  ~Removed() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  Removed(const Removed&) = delete;
  Removed& operator=(const Removed&) = delete;

 private:
  const fs::path path_;
};

}  // namespace

Finding JudgeDisk(const DiskFacts& facts) {
  constexpr const char* kCheck = "disk";
  constexpr double kLittle = 2 * kGiB, kSlow = 20 * kMB;
  const auto free_bytes = static_cast<double>(facts.free_bytes);
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, ": %.1f GiB free, %.0f MB/s written and synced", free_bytes / kGiB,
                facts.bytes_per_second / kMB);
  const std::string what = facts.folder.string() + numbers;
  if (free_bytes < kLittle) {
    return Warning(kCheck, what, "free some, or choose another --run_dir: --keep_checkpoints checkpoints must fit");
  }
  if (facts.bytes_per_second < kSlow) {
    return Warning(kCheck, what, "choose a faster disk for --run_dir, or save less often (--save_every_epochs)");
  }
  return Ok(kCheck, what);
}

DiskFacts MeasureDisk(const fs::path& run_directory) {
  DiskFacts facts;
  facts.folder = NearestFolder(run_directory);
  if (!fs::is_directory(facts.folder)) {
    throw StorageError("the run directory " + facts.folder.string() + " is a file", "choose another --run_dir");
  }
  struct statvfs found {};
  if (statvfs(facts.folder.c_str(), &found) != 0) checkpoint::ThrowSystemError("look at", facts.folder, errno);
  facts.free_bytes = static_cast<int64_t>(found.f_bavail) * static_cast<int64_t>(found.f_frsize);
  const fs::path path = facts.folder / (".doctor." + std::to_string(getpid()));
  const Removed removed(path);
  const std::string bytes(kProbeBytes, 'd');
  const auto begin = std::chrono::steady_clock::now();
  checkpoint::DurableFile file(path);
  file.Append(bytes);
  file.Finish();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  facts.bytes_per_second = static_cast<double>(kProbeBytes) / std::max(taken.count(), 1e-6);
  return facts;
}

}  // namespace dtrain::doctor
