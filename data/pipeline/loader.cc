#include "data/pipeline/loader.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>

#include "data/error.h"
#include "data/machine/limits.h"
#include "data/machine/thread.h"

namespace dtrain::data {
namespace {

constexpr int64_t kMostSamplesPerChunk = 16;

// The number of concurrent readers: few if storage answers at once, and one more for each chunk whose reads had to
// wait.
constexpr int64_t kFirstReaders = 8;
constexpr std::chrono::milliseconds kSlowRead{1};

// A batch under way, shared by the threads.
struct Job {
  Job(int64_t number, BatchSamples planned, const std::vector<Field>& fields, bool pinned)
      : batch({.tensors = {}, .number = number, .part = planned.part}, std::move(planned.samples), fields, pinned),
        done(batch.rows() == 0) {}
  OpenBatch batch;
  int64_t next_unread = 0;  // guarded by the pipeline's mutex, like the next two
  bool done;
  std::exception_ptr error;
};

// Some neighbouring rows of a job.
struct Chunk {
  std::shared_ptr<Job> job;
  int64_t begin = 0, end = 0;
  std::vector<EncodedSample> encoded;
  int64_t bytes = 0;
};

}  // namespace

class Loader::Pipeline {
 public:
  Pipeline(const RecordSource& source, const SampleDecoder& decoder, BatchProvider batches, LoaderOptions options,
           Quarantine* quarantine)
      : decoder_(decoder),
        rows_(source, decoder, quarantine, options.bad_records, options.seed),
        batches_(std::move(batches)),
        options_(std::move(options)) {
    if (options_.decode_threads <= 0) options_.decode_threads = AvailableCores();
    options_.read_threads = std::max<int64_t>(1, options_.read_threads);
    allowed_readers_ = std::min(kFirstReaders, options_.read_threads);
    next_number_ = options_.first_batch;
    options_.prefetch_batches = std::max<int64_t>(1, options_.prefetch_batches);
    Start();
  }

  ~Pipeline() { Stop(); }

  std::optional<Batch> Next() {
    std::unique_lock lock(mutex_);
    // A wait begins with nothing to decode if it is one for storage.
    auto& waited = undecoded_.empty() ? waited_for_storage_ : waited_otherwise_;
    const auto began = std::chrono::steady_clock::now();
    batch_done_.wait(lock, [this] { return failure_ || (jobs_.empty() ? provider_ended_ : jobs_.front()->done); });
    waited += std::chrono::steady_clock::now() - began;
    if (failure_) std::rethrow_exception(failure_);
    if (jobs_.empty()) return std::nullopt;
    const std::shared_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    if (job->error) {
      failure_ = job->error;
      std::rethrow_exception(failure_);
    }
    lock.unlock();
    work_to_read_.notify_one();
    Batch batch = job->batch.Take();
    if (options_.collate && batch.size() > 0) options_.collate(batch);
    return batch;
  }

  bool waits_for_storage() {
    const std::lock_guard lock(mutex_);
    return waited_for_storage_ > waited_otherwise_;
  }

  bool IsReady() const {
    const std::lock_guard lock(mutex_);
    return !failure_ && !jobs_.empty() && jobs_.front()->done && !jobs_.front()->error;
  }

 private:
  void Start() {
    // at::set_num_threads sets the calling thread's count and also a process-wide default, which is restored here.
    const int intra_op_threads = at::get_num_threads();
    try {
      for (int64_t i = 0; i < options_.decode_threads; ++i) {
        threads_.emplace_back([this] {
          at::set_num_threads(1);
          {
            const std::lock_guard lock(mutex_);
            decoders_ready_ += 1;
          }
          batch_done_.notify_all();
          DecodeLoop();
        });
      }
      for (int64_t i = 0; i < options_.read_threads; ++i) threads_.emplace_back([this] { ReadLoop(); });
    } catch (const std::system_error& error) {
      Stop();
      at::set_num_threads(intra_op_threads);
      throw Error(ExitCode::kOutOfMemory, std::string("cannot start the loader's threads: ") + error.what(),
                  "use fewer --workers, or raise the limits on processes and memory (ulimit -u and -v, those of the "
                  "container)");
    }
    std::unique_lock lock(mutex_);
    batch_done_.wait(lock, [this] { return decoders_ready_ == options_.decode_threads; });
    lock.unlock();
    at::set_num_threads(intra_op_threads);
  }

  void Stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_to_read_.notify_all();
    work_to_decode_.notify_all();
    threads_.clear();
  }

  // --- Reading ---

  void ReadLoop() {
    while (std::optional<Chunk> chunk = NextUnread()) {
      const auto start = std::chrono::steady_clock::now();
      for (int64_t row = chunk->begin; row < chunk->end && !stopping_; ++row) {
        EncodedSample encoded = ReadOne(*chunk->job, row);
        chunk->bytes += static_cast<int64_t>(encoded.bytes.size());
        chunk->encoded.push_back(std::move(encoded));
      }
      const bool slow = std::chrono::steady_clock::now() - start > kSlowRead * (chunk->end - chunk->begin);
      {
        const std::lock_guard lock(mutex_);
        --readers_;
        if (slow && allowed_readers_ < options_.read_threads) {
          ++allowed_readers_;
          work_to_read_.notify_one();
        }
        bytes_in_flight_ += chunk->bytes;
        undecoded_.push_back(std::move(*chunk));
      }
      work_to_decode_.notify_one();
    }
  }

  EncodedSample ReadOne(Job& job, int64_t row) {
    try {
      return rows_.Read(job.batch.sample(row).index);
    } catch (...) {
      Fail(job, std::current_exception());
      return {};
    }
  }

  // Returns the next rows that no thread reads yet, and begins a batch if there are none. Empty when the loader stops
  // or all batches are read.
  std::optional<Chunk> NextUnread() {
    std::unique_lock lock(mutex_);
    while (true) {
      if (stopping_) return std::nullopt;
      if (bytes_in_flight_ <= options_.max_bytes_in_flight && readers_ < allowed_readers_) {
        for (const std::shared_ptr<Job>& job : jobs_) {
          const int64_t rows = job->batch.rows();
          if (job->next_unread >= rows) continue;
          Chunk chunk{.job = job, .begin = job->next_unread, .end = 0, .encoded = {}, .bytes = 0};
          chunk.end = std::min(rows, chunk.begin + ChunkSize(rows));
          job->next_unread = chunk.end;
          ++readers_;
          return chunk;
        }
        if (provider_ended_) return std::nullopt;
        if (!opening_ && MayOpen()) {
          BeginBatch(lock);
          continue;
        }
      }
      work_to_read_.wait(lock);
    }
  }

  bool MayOpen() const { return static_cast<int64_t>(jobs_.size()) < options_.prefetch_batches; }

  int64_t ChunkSize(int64_t rows) const {
    return std::clamp<int64_t>(rows / (2 * std::max(allowed_readers_, options_.decode_threads)), 1,
                               kMostSamplesPerChunk);
  }

  // Asks for a batch and allocates it, both without the lock, because a new epoch's permutation takes a while.
  void BeginBatch(std::unique_lock<std::mutex>& lock) {
    opening_ = true;
    const int64_t number = next_number_++;
    lock.unlock();
    std::shared_ptr<Job> job;
    std::exception_ptr error;
    try {
      if (auto planned = batches_(number)) {
        const std::vector<SampleRef>& samples = planned->samples;
        const std::vector<Field> fields = rows_.fields(samples.empty() ? 0 : samples.front().size);
        job = std::make_shared<Job>(number, std::move(*planned), fields, options_.pin_memory);
      }
    } catch (...) {
      error = std::current_exception();
      job = std::make_shared<Job>(number, BatchSamples({}), std::vector<Field>(), false);
      job->error = error;
    }
    lock.lock();
    opening_ = false;
    provider_ended_ = !job || error;
    if (job) jobs_.push_back(job);
    work_to_read_.notify_all();
    batch_done_.notify_all();
  }

  // --- Decoding ---

  void DecodeLoop() {
    const c10::InferenceMode inference;
    while (std::optional<Chunk> chunk = NextUndecoded()) {
      Job& job = *chunk->job;
      try {
        for (int64_t row = chunk->begin; row < chunk->end && !stopping_; ++row) {
          rows_.Fill(job.batch, row, chunk->encoded.at(static_cast<size_t>(row - chunk->begin)));
        }
      } catch (...) {
        Fail(job, std::current_exception());
      }
      const bool last = job.batch.Finish(chunk->end - chunk->begin);
      const int64_t bytes = chunk->bytes;
      chunk.reset();
      {
        const std::lock_guard lock(mutex_);
        bytes_in_flight_ -= bytes;
        if (last) job.done = true;
      }
      if (bytes > 0) work_to_read_.notify_one();
      if (last) batch_done_.notify_all();
    }
  }

  std::optional<Chunk> NextUndecoded() {
    std::unique_lock lock(mutex_);
    work_to_decode_.wait(lock, [this] { return stopping_ || !undecoded_.empty(); });
    if (stopping_) return std::nullopt;
    Chunk chunk = std::move(undecoded_.front());
    undecoded_.pop_front();
    return chunk;
  }

  void Fail(Job& job, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!job.error) job.error = std::move(error);
  }

  const SampleDecoder& decoder_;
  const RowReader rows_;
  const BatchProvider batches_;
  LoaderOptions options_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable work_to_read_, work_to_decode_, batch_done_;
  std::deque<std::shared_ptr<Job>> jobs_;  // begun but not yet taken, in order
  std::deque<Chunk> undecoded_;
  int64_t bytes_in_flight_ = 0;
  int64_t next_number_ = 0;
  std::chrono::steady_clock::duration waited_for_storage_{}, waited_otherwise_{};  // in Next()
  int64_t readers_ = 0, allowed_readers_ = 1;
  int64_t decoders_ready_ = 0;
  bool opening_ = false, provider_ended_ = false;
  std::exception_ptr failure_;  // the exception that Next() has thrown
  std::atomic<bool> stopping_{false};
  std::vector<Thread> threads_;
};

Loader::Loader(const RecordSource& source, const SampleDecoder& decoder, BatchProvider batches, LoaderOptions options,
               Quarantine* quarantine)
    : pipeline_(std::make_unique<Pipeline>(source, decoder, std::move(batches), std::move(options), quarantine)) {}

Loader::~Loader() = default;

std::optional<Batch> Loader::Next() { return pipeline_->Next(); }
bool Loader::waits_for_storage() const { return pipeline_->waits_for_storage(); }
bool Loader::IsReady() const { return pipeline_->IsReady(); }

}  // namespace dtrain::data
