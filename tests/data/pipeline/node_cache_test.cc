// Runs several processes: what one of them keeps, the others find.
#include "data/pipeline/node_cache.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <thread>

#include "data/error.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

// Record i has i + 1 bytes of value i. Counts the reads.
class CountingSource : public RecordSource {
 public:
  explicit CountingSource(int64_t size) : reads(static_cast<size_t>(size)) {}
  int64_t size() const override { return static_cast<int64_t>(reads.size()); }
  int64_t Label(int64_t index) const override { return index % 3; }
  Bytes Read(int64_t index) const override {
    ++reads[static_cast<size_t>(index)];
    if (index == unreadable) throw DataError("I/O error");
    return Content(index);
  }
  RecordPlace Place(int64_t index) const override { return {"file", index}; }
  std::string fingerprint() const override { return "print"; }
  static Bytes Content(int64_t index) { return Bytes(static_cast<size_t>(index) + 1, static_cast<uint8_t>(index)); }
  mutable std::vector<std::atomic<int>> reads;
  int64_t unreadable = -1;
};

struct Cached {
  Cached(int64_t records, int64_t capacity) : Cached(records, NodeCache::Create(records, capacity)) {}
  Cached(int64_t records, std::shared_ptr<NodeCache> of) : cache(std::move(of)) {
    auto source = std::make_unique<CountingSource>(records);
    counting = source.get();
    cached = std::make_unique<CachedSource>(std::move(source), cache, 0, [this](const std::string& note) {
      const std::lock_guard lock(mutex);
      notes.push_back(note);
    });
  }
  void ReadAll() {
    for (int64_t i = 0; i < cached->size(); ++i) EXPECT_EQ(cached->Read(i), CountingSource::Content(i)) << i;
  }
  int reads() const {
    int all = 0;
    for (const auto& count : counting->reads) all += count;
    return all;
  }
  std::shared_ptr<NodeCache> cache;
  CountingSource* counting = nullptr;
  std::mutex mutex;
  std::vector<std::string> notes;
  std::unique_ptr<CachedSource> cached;
};

TEST(CachedSource, ReadsEachRecordOnce) {
  Cached cached(100, 1 << 20);
  for (int epoch = 0; epoch < 3; ++epoch) cached.ReadAll();
  EXPECT_EQ(cached.reads(), 100);
  EXPECT_EQ(cached.cache->records_kept(), 100);
  EXPECT_THAT(cached.notes, ElementsAre());
  EXPECT_EQ(cached.cached->Label(4), 1);
  EXPECT_EQ(cached.cached->Place(4).offset, 4);
  EXPECT_EQ(cached.cached->fingerprint(), "print");
}

TEST(CachedSource, ReadsWhatDoesNotFitAgainAndSaysSoOnce) {
  Cached cached(100, 1000);  // room for 1,000 of 5,050 bytes
  for (int epoch = 0; epoch < 3; ++epoch) cached.ReadAll();
  const int64_t kept = cached.cache->records_kept();
  EXPECT_EQ(kept, 44);  // 1 + 2 + … + 44 = 990
  EXPECT_EQ(cached.reads(), 100 + 2 * (100 - kept));
  EXPECT_THAT(cached.notes, ElementsAre(HasSubstr("hold 44 records")));
  Cached nothing(10, 0);
  nothing.ReadAll();
  EXPECT_EQ(nothing.cache->records_kept(), 0);
}

TEST(CachedSource, WhatCannotBeReadIsTriedAgain) {
  Cached cached(3, 1000);
  cached.counting->unreadable = 1;
  EXPECT_THROW(cached.cached->Read(1), DataError);
  cached.counting->unreadable = -1;
  EXPECT_EQ(cached.cached->Read(1), CountingSource::Content(1));
}

TEST(CachedSource, EmptyRecordsAreRecords) {
  const auto cache = NodeCache::Create(2, 10);
  EXPECT_TRUE(cache->Keep(0, {}));
  EXPECT_EQ(cache->Find(0), Bytes());
  EXPECT_EQ(cache->Find(1), std::nullopt);
}

TEST(NodeCache, ManyThreadsFillItTogether) {
  constexpr int64_t kRecords = 2000;
  Cached first(kRecords, 8 << 20);
  Cached second(kRecords, std::shared_ptr<NodeCache>(NodeCache::Open(first.cache->Offer())));
  ASSERT_TRUE(second.cache);
  {
    std::vector<std::jthread> threads;
    for (Cached* side : {&first, &second, &first, &second}) threads.emplace_back([side] { side->ReadAll(); });
  }
  const int reads = first.reads() + second.reads();
  EXPECT_EQ(first.cache->records_kept(), kRecords);
  first.ReadAll();
  second.ReadAll();
  EXPECT_EQ(first.reads() + second.reads(), reads);
}

// The parent finds what a child process has read, even after the child was killed.
TEST(NodeCache, OutlivesTheProcessesThatFilledIt) {
  Cached own(50, 1 << 20);
  const std::string offer = own.cache->Offer();
  const pid_t child = fork();
  if (child == 0) {
    const auto cache = NodeCache::Open(offer);
    for (int64_t i = 0; cache && i < 50; ++i) cache->Keep(i, CountingSource::Content(i));
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  own.ReadAll();
  EXPECT_EQ(own.reads(), 0);
}

TEST(NodeCache, NothingButTheOneThatWasOfferedIsOpened) {
  const auto cache = NodeCache::Create(1, 10);
  std::string offer = cache->Offer();
  EXPECT_TRUE(NodeCache::Open(offer));
  offer.back() = offer.back() == '1' ? '2' : '1';
  EXPECT_FALSE(NodeCache::Open(offer));
  const std::string self = std::to_string(getpid());
  for (const std::string& other :
       {std::string(), std::string("nonsense"), self + " 0 5", self + " 999 5", std::string("999999999 3 5")}) {
    EXPECT_FALSE(NodeCache::Open(other)) << other;
  }
}

TEST(NodeCache, HasNoNameInAnyFileSystem) {
  const auto cache = NodeCache::Create(10, 1 << 20);
  cache->Keep(0, Bytes(1 << 16));
  std::istringstream offer(cache->Offer());
  std::string process, descriptor;
  offer >> process >> descriptor;
  const auto target = std::filesystem::read_symlink("/proc/" + process + "/fd/" + descriptor).string();
  EXPECT_THAT(target, HasSubstr("memfd:"));
  EXPECT_THAT(target, HasSubstr("(deleted)"));
}

}  // namespace
}  // namespace dtrain::data
