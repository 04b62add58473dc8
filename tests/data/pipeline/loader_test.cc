// The order of batches, how far the loader reads ahead, and what bad records do.
#include "data/pipeline/loader.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "data/error.h"
#include "data/pipeline/sampler.h"
#include "tests/message_of.h"

namespace dtrain::data {
namespace {

using testing::HasSubstr;

// Records of eight bytes, their own index. Tests make some of them bad in one of three ways.
class NumberedSource : public RecordSource {
 public:
  explicit NumberedSource(int64_t size) : size_(size) {}
  std::set<int64_t> unreadable, undecodable, broken;

  int64_t size() const override { return size_; }
  int64_t Label(int64_t index) const override { return index % 10; }
  std::vector<uint8_t> Read(int64_t index) const override {
    ++reads_begun;
    if (unreadable.contains(index)) throw DataError("I/O error");
    if (broken.contains(index)) throw std::runtime_error("a bug");
    std::vector<uint8_t> bytes(undecodable.contains(index) ? 3 : 8);
    std::memcpy(bytes.data(), &index, bytes.size());
    return bytes;
  }
  RecordPlace Place(int64_t index) const override { return {"record-" + std::to_string(index)}; }
  std::string fingerprint() const override { return ""; }

  mutable std::atomic<int64_t> reads_begun{0};

 private:
  int64_t size_;
};

class NumberDecoder : public SampleDecoder {
 public:
  std::vector<Field> fields(int64_t /*size*/) const override {
    return {{.name = "value", .type = ElementType::kInt64, .row_shape = {}},
            {.name = "epoch", .type = ElementType::kInt32, .row_shape = {2}}};
  }
  void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
              std::span<const std::span<std::byte>> rows) const override {
    if (bytes.size() != 8) throw DataError("truncated");
    std::memcpy(rows[0].data(), bytes.data(), 8);
    const int32_t epochs[] = {static_cast<int32_t>(sample.epoch), -static_cast<int32_t>(sample.epoch)};
    std::memcpy(rows[1].data(), epochs, 8);
  }
};

std::vector<int64_t> Values(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), tensor.const_data_ptr<int64_t>() + tensor.numel()};
}

// Provides the first `steps` training batches of a shuffled set.
BatchProvider Training(int64_t size, int64_t batch, int64_t steps) {
  auto sampler = std::make_shared<TrainSampler>(size, batch, 7, Shuffle::kGlobal, LastBatch::kStream);
  return [=](int64_t number) { return number < steps ? std::optional(sampler->GlobalBatch(number)) : std::nullopt; };
}

BatchProvider Evaluation(int64_t size, int64_t batch) {
  auto batches = EvaluationBatches(size, batch, 0, 1);
  return [=](int64_t number) {
    return number < static_cast<int64_t>(batches.size()) ? std::optional(batches[static_cast<size_t>(number)])
                                                         : std::nullopt;
  };
}

std::vector<int64_t> AllIndices(Loader& loader) {
  std::vector<int64_t> all;
  while (auto batch = loader.Next()) {
    EXPECT_EQ(Values((*batch)["value"]), Values((*batch)["index"]));
    for (const int64_t index : Values((*batch)["index"])) all.push_back(index);
  }
  return all;
}

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
  Loader loader(source, decoder, Training(4000, 64, 40), {.decode_threads = 1}, nullptr);
  EXPECT_EQ(AllIndices(loader).size(), 2560U);
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

TEST(LoaderOfBadRecords, BadTrainingRecordsAreReplacedTheSameWayEverywhere) {
  NumberedSource source(200);
  source.unreadable = {3, 50};
  source.undecodable = {7};
  const NumberDecoder decoder;
  std::vector<std::vector<int64_t>> runs;
  for (const int64_t threads : {1, 4}) {
    Quarantine quarantine(200, {.max_bad_records = 0.015});
    Loader loader(source, decoder, Training(200, 20, 30), {.decode_threads = threads}, &quarantine);
    runs.push_back(AllIndices(loader));
    EXPECT_EQ(quarantine.count(), 3);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_EQ(runs[0].size(), 600U);
  for (const int64_t bad : {3, 50, 7}) EXPECT_EQ(std::count(runs[0].begin(), runs[0].end(), bad), 0);
  // All other samples keep their places.
  const auto wanted = TrainSampler(200, 20, 7, Shuffle::kGlobal, LastBatch::kStream).GlobalBatch(0);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool bad = wanted[i].index == 3 || wanted[i].index == 50 || wanted[i].index == 7;
    EXPECT_EQ(runs[0][i] == wanted[i].index, !bad);
  }
}

// Returns the samples of all ranks' batches, joined in order.
std::vector<int64_t> IndicesAt(int64_t world, const NumberedSource& source, int64_t batch, int64_t steps) {
  const NumberDecoder decoder;
  const auto sampler = TrainSampler(source.size(), batch, 7, Shuffle::kGlobal, LastBatch::kStream);
  std::vector<std::vector<int64_t>> by_step(static_cast<size_t>(steps));
  for (int64_t rank = 0; rank < world; ++rank) {
    const auto share = [&](int64_t step) {
      return step < steps ? std::optional(RankShare(sampler.GlobalBatch(step), rank, world)) : std::nullopt;
    };
    Quarantine quarantine(source.size(), {.max_bad_records = 1});
    Loader loader(source, decoder, share, {.decode_threads = rank + 1, .seed = 5}, &quarantine);
    for (auto& step : by_step) {
      for (const int64_t index : Values((*loader.Next())["value"])) step.push_back(index);
    }
  }
  std::vector<int64_t> all;
  for (const auto& step : by_step) all.insert(all.end(), step.begin(), step.end());
  return all;
}

TEST(LoaderOfBadRecords, ReplacementsAreTheSameAtAnyWorldSize) {
  NumberedSource source(60);
  for (int64_t index = 0; index < 60; index += 3) source.unreadable.insert(index);  // replacements are often bad, too
  const std::vector<int64_t> alone = IndicesAt(1, source, 12, 10);
  EXPECT_EQ(alone.size(), 120U);
  EXPECT_EQ(IndicesAt(2, source, 12, 10), alone);
  EXPECT_EQ(IndicesAt(3, source, 12, 10), alone);
  // Another epoch draws other replacements: not all of the 20 bad records get the same one twice.
  const auto wanted = TrainSampler(60, 12, 7, Shuffle::kGlobal, LastBatch::kStream);
  std::map<int64_t, std::set<int64_t>> stand_ins;
  for (size_t i = 0; i < alone.size(); ++i) {
    const int64_t index = wanted.GlobalBatch(static_cast<int64_t>(i) / 12)[i % 12].index;
    if (index % 3 == 0) stand_ins[index].insert(alone[i]);
  }
  EXPECT_TRUE(std::any_of(stand_ins.begin(), stand_ins.end(), [](const auto& each) { return each.second.size() > 1; }));
}

TEST(LoaderOfBadRecords, BadEvaluationRecordsAreLeftOut) {
  NumberedSource source(10);
  source.undecodable = {0, 4, 8, 9};
  const NumberDecoder decoder;
  Quarantine quarantine(10, {.max_bad_records = 0.4});
  Loader loader(source, decoder, Evaluation(10, 4), {.bad_records = BadRecordPolicy::kLeaveOut}, &quarantine);
  EXPECT_EQ(Values((*loader.Next())["value"]), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(Values((*loader.Next())["index"]), (std::vector<int64_t>{5, 6, 7}));
  const std::optional<Batch> last = loader.Next();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->size(), 0);
  EXPECT_EQ((*last)["epoch"].sizes(), (at::IntArrayRef{0, 2}));
  EXPECT_FALSE(loader.Next());
  EXPECT_EQ(quarantine.count(), 4);
}

TEST(LoaderOfBadRecords, OverTheBudgetNextThrowsAndGoesOnThrowing) {
  NumberedSource source(100);
  source.undecodable = {33, 66};
  const NumberDecoder decoder;
  Quarantine quarantine(100, {.max_bad_records = 0.01});
  Loader loader(source, decoder, Training(100, 10, 10), {}, &quarantine);
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(MessageAndHint([&] { AllIndices(loader); }),
                testing::AllOf(HasSubstr("record-"), HasSubstr("--max_bad_records")));
  }
}

TEST(LoaderOfBadRecords, WithoutQuarantineTheFirstBadRecordIsAnError) {
  NumberedSource source(100);
  source.unreadable = {33};
  const NumberDecoder decoder;
  Loader loader(source, decoder, Evaluation(100, 10), {}, nullptr);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(loader.Next());
  EXPECT_THROW(loader.Next(), DataError);
}

TEST(LoaderOfBadRecords, OtherExceptionsComeOutAsTheyAre) {
  NumberedSource source(100);
  source.broken = {33};
  const NumberDecoder decoder;
  Quarantine quarantine(100, {.max_bad_records = 1});
  Loader loader(source, decoder, Evaluation(100, 10), {}, &quarantine);
  EXPECT_THROW(AllIndices(loader), std::runtime_error);

  Loader without_batches(
      source, decoder, [](int64_t) -> std::optional<std::vector<SampleRef>> { throw std::bad_alloc(); }, {}, nullptr);
  EXPECT_THROW(without_batches.Next(), std::bad_alloc);
}

TEST(LoaderOfBadRecords, WhenEverythingIsBadItEndsWithAnError) {
  NumberedSource source(50);
  for (int64_t i = 0; i < 50; ++i) source.unreadable.insert(i);
  const NumberDecoder decoder;
  Quarantine quarantine(50, {.max_bad_records = 1});
  Loader loader(source, decoder, Training(50, 10, 10), {}, &quarantine);
  EXPECT_THROW(loader.Next(), DataError);
}

}  // namespace
}  // namespace dtrain::data
