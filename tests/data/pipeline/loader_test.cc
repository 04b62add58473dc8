// Tests the order of batches and how far the loader reads ahead; loader_bad_records_test.cc tests bad records.
#include "data/pipeline/loader.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "data/pipeline/sampler.h"
#include "tests/data/pipeline/numbered_records.h"

namespace dtrain::data {
namespace {

TEST(Loader, DeliversTheSamplersOrderAtAnyNumberOfThreads) {
  const NumberedSource source(1000);
  const NumberDecoder decoder;
  const auto wanted = TrainSampler(1000, 37, 7, Shuffle::kGlobal, LastBatch::kStream);
  for (const auto& [decoders, readers, prefetch] : {std::tuple{1, 1, 1}, {4, 8, 3}, {3, 1, 8}}) {
    Loader loader(source, decoder, Training(1000, 37, 60),
                  {.decode_threads = decoders, .read_threads = readers, .prefetch_batches = prefetch}, nullptr);
    for (int64_t step = 0; step < 60; ++step) {
      const std::optional<Batch> batch = loader.Next();
      ASSERT_TRUE(batch);
      EXPECT_EQ(batch->number, step);
      const auto samples = wanted.GlobalBatch(step);
      ASSERT_EQ(batch->size(), 37);
      for (size_t i = 0; i < samples.size(); ++i) {
        ASSERT_EQ(Values((*batch)["value"])[i], samples[i].index);
        ASSERT_EQ(Values((*batch)["labels"])[i], samples[i].index % 10);
        ASSERT_EQ((*batch)["epoch"][static_cast<int64_t>(i)][0].item<int32_t>(), samples[i].epoch);
      }
    }
    EXPECT_FALSE(loader.Next());
    EXPECT_FALSE(loader.Next());
  }
}

TEST(Loader, BeginsNoMoreBatchesThanAskedFor) {
  const NumberedSource source(1000);
  const NumberDecoder decoder;
  std::atomic<int64_t> asked{0};
  std::atomic<int64_t> taken{0};
  std::atomic<bool> ahead{false};
  const auto batches = [&](int64_t number) -> std::optional<std::vector<SampleRef>> {
    ++asked;
    if (number >= taken + 3) ahead = true;
    if (number == 50) return std::nullopt;
    return std::vector<SampleRef>{{.index = number}};
  };
  Loader loader(source, decoder, batches, {.decode_threads = 2, .prefetch_batches = 2}, nullptr);
  do {
    ++taken;  // before Next, because Next frees the slot of the batch it takes
  } while (loader.Next());
  EXPECT_FALSE(ahead);
  EXPECT_EQ(asked, 51);
}

TEST(Loader, EmptyBatchesAndNoBatchesAtAll) {
  const NumberedSource source(10);
  const NumberDecoder decoder;
  Loader none(
      source, decoder, [](int64_t) { return std::nullopt; }, {}, nullptr);
  EXPECT_FALSE(none.Next());
  Loader empty(
      source, decoder,
      [](int64_t number) { return number == 0 ? std::optional(std::vector<SampleRef>{}) : std::nullopt; }, {}, nullptr);
  EXPECT_EQ(empty.Next()->size(), 0);
  EXPECT_FALSE(empty.Next());
}

TEST(Loader, BytesInFlightAreBoundedWithoutStalling) {
  const NumberedSource source(1000);
  const NumberDecoder decoder;
  Loader loader(source, decoder, Training(1000, 100, 20), {.decode_threads = 2, .max_bytes_in_flight = 0}, nullptr);
  EXPECT_EQ(AllIndices(loader).size(), 2000U);
}

TEST(Loader, IsAbandonedAtAnyMoment) {
  const NumberedSource source(100000);
  const NumberDecoder decoder;
  for (int taken = 0; taken < 20; ++taken) {
    Loader loader(source, decoder, Training(100000, 1000, 100), {.decode_threads = 2}, nullptr);
    for (int i = 0; i < taken / 4; ++i) loader.Next();
  }
}

// A source whose reads block until they are released.
class BlockedSource : public NumberedSource {
 public:
  using NumberedSource::NumberedSource;
  std::vector<uint8_t> Read(int64_t index) const override {
    std::unique_lock lock(mutex);
    ++waiting;
    changed.notify_all();
    changed.wait(lock, [this] { return open; });
    lock.unlock();
    return NumberedSource::Read(index);
  }
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  mutable int waiting = 0;
  bool open = false;
};

TEST(Loader, AbandonedMidReadItWaitsForThatReadAlone) {
  BlockedSource source(1000);
  const NumberDecoder decoder;
  {
    Loader loader(source, decoder, Training(1000, 500, 2), {.decode_threads = 1, .read_threads = 4}, nullptr);
    std::unique_lock lock(source.mutex);
    source.changed.wait(lock, [&] { return source.waiting == 4; });
    std::thread([&] {
      const std::lock_guard guard(source.mutex);
      source.open = true;
      source.changed.notify_all();
    }).detach();
    lock.unlock();
  }
  SUCCEED();
}

// Simulates a file system with slow reads that serves many of them at once, as a network file system does.
class SlowSource : public NumberedSource {
 public:
  using NumberedSource::NumberedSource;
  std::vector<uint8_t> Read(int64_t index) const override {
    for (int now = ++reading_, most = most_; now > most && !most_.compare_exchange_weak(most, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // simulates a slow read; nothing is synchronised by it
    --reading_;
    return NumberedSource::Read(index);
  }
  int most_at_once() const { return most_; }

 private:
  mutable std::atomic<int> reading_ = 0, most_ = 0;
};

TEST(Loader, SlowReadsAreOverlapped) {
  const SlowSource source(4000);
  const NumberDecoder decoder;
  const auto begin = std::chrono::steady_clock::now();
  Loader loader(source, decoder, Training(4000, 64, 40), {.decode_threads = 1}, nullptr);
  EXPECT_EQ(AllIndices(loader).size(), 2560U);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%.0f reads/s\n", 2560 / seconds.count());
  EXPECT_GT(source.most_at_once(), 16);  // only slow storage gets more than eight readers
  EXPECT_TRUE(loader.waits_for_storage());
}

TEST(Loader, BatchesAreNumberedFromTheFirst) {
  const NumberedSource source(10);
  const NumberDecoder decoder;
  Loader loader(
      source, decoder,
      [](int64_t number) {
        return number < 9 ? std::optional(std::vector<SampleRef>{{.index = number}}) : std::nullopt;
      },
      {.first_batch = 7}, nullptr);
  for (const int64_t number : {7, 8}) {
    const auto batch = loader.Next();
    EXPECT_EQ(batch->number, number);
    EXPECT_EQ(Values((*batch)["index"])[0], number);
  }
  EXPECT_FALSE(loader.Next());
}

TEST(Loader, LeavesTheCallersThreadCountAlone) {
  const NumberedSource source(10);
  const NumberDecoder decoder;
  const int before = at::get_num_threads();
  {
    Loader loader(source, decoder, Evaluation(10, 4), {.decode_threads = 3}, nullptr);
    EXPECT_EQ(at::get_num_threads(), before);
    AllIndices(loader);
  }
  EXPECT_EQ(at::get_num_threads(), before);
}

}  // namespace
}  // namespace dtrain::data
