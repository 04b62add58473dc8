#include "trainer/checkpoint/async_writer.h"

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
    options_.warn(std::string("the last checkpoint could not be saved: ") + error.what());
  }
}

void AsyncWriter::WaitUntilIdle(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [this] { return !pending_; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void AsyncWriter::Save(Snapshot snapshot) {
  std::unique_lock lock(mutex_);
  WaitUntilIdle(lock);
  pending_ = std::move(snapshot);
  started_ = Clock::now();
  changed_.notify_all();
}

void AsyncWriter::Wait() {
  std::unique_lock lock(mutex_);
  WaitUntilIdle(lock);
}

void AsyncWriter::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return pending_ || stopping_; });
    if (!pending_) return;
    lock.unlock();
    std::exception_ptr failure;  // nobody else writes pending_ while it is set
    try {
      SaveWithRetries(*pending_);
    } catch (const Error&) {
      failure = std::current_exception();
    } catch (const std::bad_alloc&) {
      failure = std::current_exception();
    } catch (const std::exception& error) {
      failure = std::make_exception_ptr(StorageError(error.what()));
    }
    lock.lock();
    failure_ = failure;
    if (!failure) last_success_ = Clock::now();
    pending_.reset();
    changed_.notify_all();
  }
}

void AsyncWriter::SaveWithRetries(const Snapshot& snapshot) {
  for (int attempt = 1;; ++attempt) {
    try {
      SaveOnce(snapshot);
      return;
    } catch (const StorageError& error) {
      if (attempt >= options_.attempts) throw;
      options_.warn("saving step " + std::to_string(snapshot.step) + " failed (attempt " + std::to_string(attempt) +
                    " of " + std::to_string(options_.attempts) + "): " + error.what());
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(options_.retry_pause_seconds));
  }
}

void AsyncWriter::SaveOnce(const Snapshot& snapshot) {
  const Checkpoint saved = store_.Publish(snapshot);
  WriteSafetensors(store_.run_directory() / "model.safetensors", snapshot.model, options_.model_metadata);
  store_.Prune(saved, options_.keep_checkpoints);
}

double AsyncWriter::seconds_since_last_success() const {
  std::lock_guard lock(mutex_);
  return std::chrono::duration<double>(Clock::now() - last_success_).count();
}

std::optional<AsyncWriter::Activity> AsyncWriter::current() const {
  std::lock_guard lock(mutex_);
  if (!pending_) return std::nullopt;
  return Activity{store_.DirectoryOf(pending_->step), std::chrono::duration<double>(Clock::now() - started_).count()};
}

}  // namespace dtrain::checkpoint
