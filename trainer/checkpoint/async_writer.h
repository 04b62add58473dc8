// Saves while training goes on. One background thread publishes snapshots, so that the loop waits only for the copy to
// host memory (from a GPU not even for that) and, if saves come faster than the disk writes, for the previous save.
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
#include <vector>

#include "data/machine/thread.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/store.h"

namespace dtrain::checkpoint {

// The hundreds of tensors of a checkpoint on the host. From a GPU they go into pinned memory and nobody waits for them
// here: the loop goes on at once, and only the thread that writes them waits.
struct HostCopies {
  std::vector<NamedTensors> sets;  // as given, with the same strides, in a few large allocations
  // Returns when the copies are complete. May be called on any thread, any number of times. Work that is queued on the
  // stream after CopyToHost cannot change the copies, since it runs after them.
  std::function<void()> wait;
};

// Starts the copies on the current stream. Each tensor is on the CPU or on one device, the current one. An allocation
// has at most `piece_bytes` or holds a single tensor.
HostCopies CopyToHost(const std::vector<NamedTensors>& sets, int64_t piece_bytes = int64_t{256} << 20);

struct AsyncWriterOptions {
  int64_t keep_checkpoints = 3;
  int attempts = 3;                // per save; each starts from the beginning
  double retry_pause_seconds = 1;  // between attempts
  Metadata model_metadata;         // of model.safetensors and its companions, beside the step. It has no time
                                   // stamp, so that equal runs write equal bytes
  std::function<void(const std::string&)> warn = [](const std::string&) {};  // called on the background thread
};

// Returns the step whose weights an AsyncWriter has written to `file`; empty if there are none.
std::optional<int64_t> StepOfWeights(const std::filesystem::path& file);

// The const methods may be called on any thread, all others on one thread only (the main thread).
class AsyncWriter {
 public:
  AsyncWriter(Store store, AsyncWriterOptions options);
  // Finishes the pending saves. If one fails, or a failure has not been thrown yet, calls `warn` with it.
  ~AsyncWriter();
  AsyncWriter(const AsyncWriter&) = delete;
  AsyncWriter& operator=(const AsyncWriter&) = delete;

  // Waits for the previous Save, takes the snapshot and returns. The background thread publishes and verifies it,
  // replaces <run_dir>/model.safetensors by its model tensors and, if the snapshot has an average,
  // model_ema.safetensors by that, and prunes old checkpoints. If an earlier save has failed, throws its error
  // (StorageError) and does not take the new snapshot.
  void Save(Snapshot snapshot);

  // The same for <run_dir>/model_best.safetensors alone: waits for the previous SaveBest, not for a Save. `wait`: see
  // Snapshot.
  void SaveBest(
      int64_t step, NamedTensors model, std::function<void()> wait = [] {});

  // Returns when everything is on the disk. Throws the error of a save that failed (StorageError).
  void Wait();

  // Whether the files that Save leaves beside the checkpoints are of this step.
  bool HasWeightsOf(int64_t step, bool has_average) const;
  // Seconds since the last Save that succeeded, or since construction (monotonic clock). SaveBest does not count.
  double seconds_since_last_success() const;
  // The step of that checkpoint; empty before the first.
  std::optional<int64_t> last_saved_step() const;
  // Seconds that writing the last successful Save took; empty before the first.
  std::optional<double> last_save_seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  enum class Kind { kCheckpoint, kBest };
  // One thing to write.
  struct Job {
    Kind kind;
    std::filesystem::path path;  // for warnings
    int64_t step;
    std::function<void()> write;
  };

  void Start(Job job);
  void Run();
  void RunWithRetries(const Job& job);
  void SaveOnce(const Snapshot& snapshot);
  void WriteWeights(const std::filesystem::path& path, const NamedTensors& weights, int64_t step) const;
  bool IsWaiting(Kind kind) const;
  void RethrowFailure();

  Store store_;
  const AsyncWriterOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  // at most one of each kind; the first is being written
  bool stopping_ = false;
  std::exception_ptr failure_;  // of a save, until it is thrown
  Clock::time_point last_success_ = Clock::now();
  std::optional<double> last_save_seconds_;
  std::optional<int64_t> last_saved_step_;
  Clock::time_point started_;  // when the first job began
  data::Thread thread_;        // last member: it starts when all others are ready
};

}  // namespace dtrain::checkpoint
