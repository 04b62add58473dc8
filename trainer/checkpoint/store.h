// The checkpoints of one run directory. A checkpoint is a folder that appears by a single rename and is never written
// again, so that a crash at any instant leaves the previous one or the new one whole. Since disks lie, it is trusted
// only after every byte has been checked against its manifest.
//
//   <run_dir>/checkpoints/step-000001234/model.safetensors      weights and buffers
//                                        optimizer.safetensors  optimizer state
//                                        model_ema.safetensors  the moving average of the weights, with --ema_decay
//                                        state.json             everything else (progress, settings, classes, …)
//                                        manifest.json          sizes and SHA-256 of the others, SHA-256 of itself
//   <run_dir>/checkpoints/tmp.<pid>.step-000001234              being written or deleted, or left by a dead process
//   <run_dir>/checkpoints/aside-<n>-step-000001234              moved here by SetAsideNewerThan, never touched again
//   <run_dir>/latest                                            "checkpoints/step-000001234\n", for people
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/safetensors.h"

namespace dtrain::checkpoint {

// Everything that a run needs to resume. Once `wait` has returned, the tensors are complete copies on the host, which
// nobody else writes to.
struct Snapshot {
  int64_t step = 0;
  NamedTensors model;
  NamedTensors optimizer;
  NamedTensors average;  // empty: no average is kept
  nlohmann::json state;
  std::function<void()> wait = [] {};  // HostCopies::wait; AsyncWriter calls it before it writes
};

// A published checkpoint whose every byte has been verified.
struct Checkpoint {
  int64_t step = 0;
  std::filesystem::path directory;
};

// All methods throw StorageError. Any number of processes may call the const methods; only the holder of the run
// directory's lock (run_lock.h) may call the others.
class Store {
 public:
  // Called with the folder of a checkpoint that failed verification and the reason.
  using OnInvalid = std::function<void(const std::filesystem::path& directory, const std::string& reason)>;

  // Does not touch the disk.
  explicit Store(std::filesystem::path run_directory);

  // Removes temporary folders that dead processes left behind. Called once, before anything is published.
  void RemoveLeftovers();

  // Writes `snapshot` durably, reads it back, makes it visible by a rename and points `latest` at it. If there is a
  // checkpoint of this step already, a valid one is kept and an invalid one replaced. If Publish throws, no valid
  // checkpoint has been touched and the temporary folder is gone, so it may be called again.
  Checkpoint Publish(const Snapshot& snapshot);

  // Verifies checkpoints from the newest to the oldest and returns the first valid one; calls `on_invalid` for each
  // invalid one on the way. Returns empty if there are no checkpoints at all, throws if none of them is valid.
  std::optional<Checkpoint> FindNewestValid(const OnInvalid& on_invalid) const;

  // Deletes old checkpoints: keeps `newest`, which is known to be valid, and the `keep` - 1 before it (`keep` below 1
  // counts as 1). Checkpoints above `newest` are damaged or foreign and stay.
  void Prune(const Checkpoint& newest, int64_t keep);

  // Renames the checkpoints with a step above `step` (all if it is -1), so that a run that starts from an older state
  // does not take later checkpoints for its own. Returns their number.
  int SetAsideNewerThan(int64_t step);

  // Returns the steps of the published checkpoints, valid or not, in increasing order.
  std::vector<int64_t> Steps() const;

  std::filesystem::path DirectoryOf(int64_t step) const;
  // Where this process writes a checkpoint before it appears.
  std::filesystem::path TemporaryFor(int64_t step) const;
  const std::filesystem::path& run_directory() const { return run_directory_; }

 private:
  void Reveal(const std::filesystem::path& temporary, int64_t step);
  void PointLatestAt(int64_t step);
  void Delete(int64_t step);

  std::filesystem::path run_directory_;
  std::filesystem::path checkpoints_;
};

// Returns the reason why the checkpoint in `directory` is invalid; empty if every byte is as it was written.
std::optional<std::string> ProblemOf(const std::filesystem::path& directory);

// Verifies the checkpoint that a user named with --resume=PATH: a checkpoint's folder, or a run directory, which means
// its newest valid checkpoint. Throws StorageError.
Checkpoint OpenCheckpoint(const std::filesystem::path& path, const Store::OnInvalid& on_invalid);

// Reads a file of weights, which may be one of a checkpoint. Throws StorageError if that is not valid, and as
// ReadSafetensors does.
SafetensorsContent ReadWeights(const std::filesystem::path& file);

// Reads a verified checkpoint. Throws StorageError.
Snapshot Load(const Checkpoint& checkpoint);

}  // namespace dtrain::checkpoint
