#include "trainer/checkpoint/async_writer.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "trainer/errors.h"

namespace dtrain::checkpoint {

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

bool AsyncWriter::IsWaiting(Kind kind) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [kind](const Job& job) { return job.kind == kind; });
}

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
           WriteSafetensors(path, model, MetadataAt(step));
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

Metadata AsyncWriter::MetadataAt(int64_t step) const {
  Metadata metadata = options_.model_metadata;
  metadata["step"] = std::to_string(step);
  return metadata;
}

void AsyncWriter::SaveOnce(const Snapshot& snapshot) {
  snapshot.wait();
  const Checkpoint saved = store_.Publish(snapshot);
  WriteSafetensors(store_.run_directory() / "model.safetensors", snapshot.model, MetadataAt(snapshot.step));
  if (!snapshot.average.empty()) {
    WriteSafetensors(store_.run_directory() / "model_ema.safetensors", snapshot.average, MetadataAt(snapshot.step));
  }
  store_.Prune(saved, options_.keep_checkpoints);
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

std::optional<AsyncWriter::Activity> AsyncWriter::current() const {
  std::lock_guard lock(mutex_);
  if (jobs_.empty()) return std::nullopt;
  return Activity{jobs_.front().path, std::chrono::duration<double>(Clock::now() - started_).count()};
}

}  // namespace dtrain::checkpoint
