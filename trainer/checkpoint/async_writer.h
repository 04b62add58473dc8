// Saves while training goes on: one background thread publishes snapshots, so that the loop waits only for the copy to
// host memory (not even for that where it comes from a GPU) and, if saves come faster than the disk, for the previous
// save.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "trainer/checkpoint/store.h"

namespace dtrain::checkpoint {

struct AsyncWriterOptions {
  int64_t keep_checkpoints = 3;
  int attempts = 3;                // per save, each from the beginning
  double retry_pause_seconds = 1;  // between attempts
  Metadata model_metadata;         // of model.safetensors and its companions, with the step; no time stamps:
                                   // equal runs, equal bytes
  std::function<void(const std::string&)> warn = [](const std::string&) {};  // called on the background thread
};

// All public methods are for one thread (the loop's) but the const ones, which any thread may call.
class AsyncWriter {
 public:
  AsyncWriter(Store store, AsyncWriterOptions options);
  // Finishes the pending save. A failure that nobody has heard of yet goes to `warn`.
  ~AsyncWriter();
  AsyncWriter(const AsyncWriter&) = delete;
  AsyncWriter& operator=(const AsyncWriter&) = delete;

  // Takes the snapshot and returns, after waiting for the previous save. The thread publishes it, reads it back, prunes
  // old checkpoints and replaces <run_dir>/model.safetensors with its model tensors, and
  // model_ema.safetensors with their average where there is one. Throws what an earlier save
  // failed with (StorageError), before taking the new one.
  void Save(Snapshot snapshot);

  // The same for <run_dir>/model_best.safetensors alone: waits for the previous SaveBest, not for a Save.
  // `wait` as in Snapshot.
  void SaveBest(
      int64_t step, NamedTensors model, std::function<void()> wait = [] {});

  // Returns when everything is on the disk. Throws what a pending save failed with (StorageError).
  void Wait();

  // Since the last save that succeeded, or since construction (monotonic clock).
  double seconds_since_last_success() const;
  // How long the last one that succeeded was written; nullopt before the first.
  std::optional<double> last_save_seconds() const;

  // What is being written right now and for how long: for a watchdog that names the path of a hanging file system.
  struct Activity {
    std::filesystem::path path;
    double seconds = 0;
  };
  std::optional<Activity> current() const;

 private:
  using Clock = std::chrono::steady_clock;

  enum class Kind { kCheckpoint, kBest };
  // One thing to write. `path` is for people: what is being written.
  struct Job {
    Kind kind;
    std::filesystem::path path;
    std::function<void()> write;
  };

  void Start(Job job);
  void Run();
  void RunWithRetries(const Job& job);
  void SaveOnce(const Snapshot& snapshot);
  Metadata MetadataAt(int64_t step) const;
  bool IsWaiting(Kind kind) const;
  void RethrowFailure();

  Store store_;
  const AsyncWriterOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  // one of each kind at most; the first until the thread is done with it
  bool stopping_ = false;
  std::exception_ptr failure_;
  Clock::time_point last_success_ = Clock::now();
  std::optional<double> last_save_seconds_;
  Clock::time_point started_;  // of the first job
  std::thread thread_;         // last: starts when everything above is ready
};

}  // namespace dtrain::checkpoint
