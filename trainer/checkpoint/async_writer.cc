#include "trainer/checkpoint/async_writer.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "data/formats/safetensors_file.h"
#include "data/whole_number.h"
#include "trainer/errors.h"

namespace dtrain::checkpoint {
namespace {

constexpr int64_t kAlignment = 64;
constexpr char kModelFile[] = "model.safetensors", kAverageFile[] = "model_ema.safetensors";
constexpr char kStep[] = "step";  // in the metadata of both

int64_t AlignedBytes(const at::Tensor& tensor) {
  return (static_cast<int64_t>(tensor.nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
}

// LibTorch allocates pinned memory in powers of two, so allocations near such a size waste little.
// Returns the bytes of each allocation, which holds as many consecutive tensors as fit into a piece, at least one.
std::vector<int64_t> PieceSizes(const std::vector<NamedTensors>& sets, int64_t piece_bytes) {
  std::vector<int64_t> sizes;
  for (const NamedTensors& set : sets) {
    for (const auto& [name, tensor] : set) {
      const int64_t bytes = AlignedBytes(tensor);
      if (sizes.empty() || sizes.back() + bytes > piece_bytes) sizes.push_back(0);
      sizes.back() += bytes;
    }
  }
  return sizes;
}

// Hands out memory for one tensor after the other, in the order of PieceSizes.
class Places {
 public:
  Places(const std::vector<NamedTensors>& sets, int64_t piece_bytes, bool pinned)
      : sizes_(PieceSizes(sets, piece_bytes)), options_(at::TensorOptions(at::kByte).pinned_memory(pinned)) {}

  // Returns an uninitialised tensor with the sizes, dtype and strides of `like` (contiguous if `like` has gaps).
  at::Tensor Next(const at::Tensor& like) {
    const int64_t bytes = AlignedBytes(like);
    if (!piece_.defined() || used_ + bytes > piece_.numel()) {
      piece_ = at::empty({sizes_.at(next_++)}, options_);
      used_ = 0;
    }
    const at::Tensor flat =
        piece_.slice(0, used_, used_ + static_cast<int64_t>(like.nbytes())).view(like.scalar_type());
    used_ += bytes;
    return like.is_non_overlapping_and_dense() ? flat.as_strided(like.sizes(), like.strides(), flat.storage_offset())
                                               : flat.view(like.sizes());
  }

 private:
  const std::vector<int64_t> sizes_;
  const at::TensorOptions options_;
  size_t next_ = 0;
  int64_t used_ = 0;
  at::Tensor piece_;
};

at::Device DeviceOf(const std::vector<NamedTensors>& sets) {
  for (const NamedTensors& set : sets) {
    for (const auto& [name, tensor] : set) {
      if (!tensor.is_cpu()) return tensor.device();
    }
  }
  return at::kCPU;
}

}  // namespace

HostCopies CopyToHost(const std::vector<NamedTensors>& sets, int64_t piece_bytes) {
  const at::NoGradGuard no_grad;
  const at::Device device = DeviceOf(sets);
  Places places(sets, piece_bytes, !device.is_cpu());
  HostCopies copies;
  for (const NamedTensors& set : sets) {
    copies.sets.emplace_back();
    for (const auto& [name, tensor] : set) {
      at::Tensor copy = places.Next(tensor);
      copy.copy_(tensor.detach(), /*non_blocking=*/true);
      copies.sets.back().emplace_back(name, std::move(copy));
    }
  }
  copies.wait = [] {};
  if (device.is_cpu()) return copies;
  const auto copied = std::make_shared<c10::Event>(device.type());
  copied->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  copies.wait = [copied] { copied->synchronize(); };
  return copies;
}

std::optional<int64_t> StepOfWeights(const std::filesystem::path& file) {
  try {
    const data::SafetensorsFile weights(file.string());
    const auto step = weights.metadata().find(kStep);
    return step == weights.metadata().end() ? std::nullopt : data::WholeNumber(step->second);
  } catch (const DataError&) {  // missing, or no such file
    return std::nullopt;
  }
}

AsyncWriter::AsyncWriter(Store store, AsyncWriterOptions options)
    : store_(std::move(store)), options_(std::move(options)), thread_([this] { Run(); }) {}

AsyncWriter::~AsyncWriter() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (!failure_) return;
  try {
    std::rethrow_exception(failure_);
  } catch (const std::exception& error) {
    options_.warn(std::string("the last files of the run could not be saved: ") + error.what());
  }
}

bool AsyncWriter::IsWaiting(Kind kind) const { return std::ranges::count(jobs_, kind, &Job::kind) > 0; }

void AsyncWriter::RethrowFailure() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void AsyncWriter::Save(Snapshot snapshot) {
  const std::filesystem::path path = store_.DirectoryOf(snapshot.step);
  const int64_t step = snapshot.step;
  Start({Kind::kCheckpoint, path, step, [this, snapshot = std::move(snapshot)] { SaveOnce(snapshot); }});
}

void AsyncWriter::SaveBest(int64_t step, NamedTensors model, std::function<void()> wait) {
  const std::filesystem::path path = store_.run_directory() / "model_best.safetensors";
  Start({Kind::kBest, path, step, [this, path, step, model = std::move(model), wait = std::move(wait)] {
           wait();
           WriteWeights(path, model, step);
         }});
}

void AsyncWriter::Start(Job job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !IsWaiting(job.kind); });
  RethrowFailure();
  if (jobs_.empty()) started_ = Clock::now();
  jobs_.push_back(std::move(job));
  changed_.notify_all();
}

void AsyncWriter::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty(); });
  RethrowFailure();
}

void AsyncWriter::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !jobs_.empty() || stopping_; });
    if (jobs_.empty()) return;
    const Job& job = jobs_.front();  // the other thread only appends behind it
    lock.unlock();
    std::exception_ptr failure;
    try {
      RunWithRetries(job);
    } catch (...) {  // not StorageError alone: memory may run out, too. The next Save or Wait throws it
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) failure_ = failure;
    if (!failure && job.kind == Kind::kCheckpoint) {
      last_success_ = Clock::now();
      last_saved_step_ = job.step;
      last_save_seconds_ = std::chrono::duration<double>(last_success_ - started_).count();
    }
    jobs_.pop_front();
    started_ = Clock::now();
    changed_.notify_all();
  }
}

void AsyncWriter::RunWithRetries(const Job& job) {
  for (int attempt = 1;; ++attempt) {
    try {
      job.write();
      return;
    } catch (const StorageError& error) {
      if (attempt >= options_.attempts) throw;
      options_.warn("saving " + job.path.filename().string() + " failed (attempt " + std::to_string(attempt) + " of " +
                    std::to_string(options_.attempts) + "): " + error.what());
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(options_.retry_pause_seconds));
  }
}

// Files of weights have no manifest beside them.
void AsyncWriter::WriteWeights(const std::filesystem::path& path, const NamedTensors& weights, int64_t step) const {
  Metadata metadata = options_.model_metadata;
  metadata[kStep] = std::to_string(step);
  WriteSafetensors(path, weights, WithChecksum(std::move(metadata), weights));
}

void AsyncWriter::SaveOnce(const Snapshot& snapshot) {
  snapshot.wait();
  const Checkpoint saved = store_.Publish(snapshot);
  WriteWeights(store_.run_directory() / kModelFile, snapshot.model, snapshot.step);
  if (!snapshot.average.empty()) {
    WriteWeights(store_.run_directory() / kAverageFile, snapshot.average, snapshot.step);
  }
  store_.Prune(saved, options_.keep_checkpoints);
}

bool AsyncWriter::HasWeightsOf(int64_t step, bool has_average) const {
  const auto is_of_step = [&](const char* name) { return StepOfWeights(store_.run_directory() / name) == step; };
  return is_of_step(kModelFile) && (!has_average || is_of_step(kAverageFile));
}

double AsyncWriter::seconds_since_last_success() const {
  std::lock_guard lock(mutex_);
  return std::chrono::duration<double>(Clock::now() - last_success_).count();
}

std::optional<double> AsyncWriter::last_save_seconds() const {
  std::lock_guard lock(mutex_);
  return last_save_seconds_;
}

std::optional<int64_t> AsyncWriter::last_saved_step() const {
  std::lock_guard lock(mutex_);
  return last_saved_step_;
}

}  // namespace dtrain::checkpoint
