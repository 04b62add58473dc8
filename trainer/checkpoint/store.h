// Checkpoints of one run directory. A checkpoint is a folder that appears by a single rename and is never written
// again, so that a crash at any instant leaves the previous one or the new one whole; and it is believed only after
// every byte has been checked against its manifest, because disks lie.
//
//   <run_dir>/checkpoints/step-000001234/model.safetensors      weights and buffers
//                                        optimizer.safetensors  optimizer state
//                                        model_ema.safetensors  the moving average of the weights, where one is kept
//                                        state.json             everything else (counters, random states, …)
//                                        manifest.json          size and SHA-256 of the others, and of itself
//   <run_dir>/checkpoints/tmp.<pid>.step-000001234              being written or deleted, or left by a dead process
//   <run_dir>/checkpoints/aside-<n>-step-000001234              by SetAsideNewerThan; never touched again
//   <run_dir>/latest                                            "checkpoints/step-000001234\n": a hint for people
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

// All that a run needs to go on. The tensors are copies on the host that nobody else writes to, once `wait` has
// returned.
struct Snapshot {
  int64_t step = 0;
  NamedTensors model;
  NamedTensors optimizer;
  NamedTensors average;  // empty: none is kept
  nlohmann::json state;
  std::function<void()> wait = [] {};  // of host_copies.h; AsyncWriter calls it before it writes
};

// A published checkpoint whose every byte has been verified.
struct Checkpoint {
  int64_t step = 0;
  std::filesystem::path directory;
};

// Failures are StorageError. Reading methods may be used by any number of processes; the others only by the holder of
// the run directory's lock (run_lock.h).
class Store {
 public:
  // Called with the folder of a checkpoint that failed verification and the reason.
  using OnInvalid = std::function<void(const std::filesystem::path& directory, const std::string& reason)>;

  // Touches nothing yet.
  explicit Store(std::filesystem::path run_directory);

  // Removes what dead writers left behind. Once, at the start.
  void RemoveLeftovers();

  // Makes `snapshot` durable, reads it back, then makes it visible and points `latest` at it. A valid checkpoint of
  // that step that is already there is kept, an invalid one is replaced. When it throws, no valid checkpoint has been
  // touched and the temporary folder is gone; calling it again is right.
  Checkpoint Publish(const Snapshot& snapshot);

  // Verifies from the newest to the oldest and returns the first valid one, reporting each invalid one on the way;
  // nullopt when there are no checkpoints at all. Throws when there are some and none is valid.
  std::optional<Checkpoint> FindNewestValid(const OnInvalid& on_invalid) const;

  // Deletes all but the newest `keep` (≥ 1) checkpoints, counted from `newest` downwards: it is known to be good, so
  // there is something to go back to. Those above `newest` are damaged or foreign and stay.
  void Prune(const Checkpoint& newest, int64_t keep);

  // Renames the checkpoints with step > `step` out of the way (all of them with -1): for a run that starts again from
  // an older state, whose later checkpoints must not be mistaken for its own. Returns how many.
  int SetAsideNewerThan(int64_t step);

  // Steps of the published checkpoints, valid or not, in increasing order.
  std::vector<int64_t> Steps() const;

  std::filesystem::path DirectoryOf(int64_t step) const;
  const std::filesystem::path& run_directory() const { return run_directory_; }

 private:
  void Reveal(const std::filesystem::path& temporary, int64_t step);
  void PointLatestAt(int64_t step);
  void Delete(int64_t step);
  std::filesystem::path TemporaryFor(int64_t step) const;

  std::filesystem::path run_directory_;
  std::filesystem::path checkpoints_;
};

// Why the checkpoint in `directory` cannot be believed; nullopt when all of it is as it was written.
std::optional<std::string> ProblemOf(const std::filesystem::path& directory);

// Verifies the checkpoint folder that a user named (--resume=PATH; a run directory means its newest valid checkpoint).
Checkpoint OpenCheckpoint(const std::filesystem::path& path, const Store::OnInvalid& on_invalid);

// Reads a verified checkpoint.
Snapshot Load(const Checkpoint& checkpoint);

}  // namespace dtrain::checkpoint
