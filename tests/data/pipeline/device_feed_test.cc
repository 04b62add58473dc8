// Tests the order in which copies are started and waited for; gpu_test tests a GPU's own transport.
#include "data/pipeline/device_feed.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cstring>
#include <future>
#include <thread>

#include "data/error.h"
#include "data/formats/raw_rows.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;

constexpr int64_t kBatches = 3;

// Has one sample per batch; `before` is called on the loader's thread with each batch number.
struct Fixture {
  explicit Fixture(std::function<void(int64_t)> before = [](int64_t) {})
      : source(10, 10, 2, 2, 0),
        decoder(source.rows()),
        loader(
            source, decoder,
            [before](int64_t number) -> std::optional<std::vector<SampleRef>> {
              before(number);
              if (number >= kBatches) return std::nullopt;
              return std::vector{SampleRef{number, 0}};
            },
            {.prefetch_batches = kBatches}, nullptr) {}

  void WaitUntilReady() const {
    while (!loader.IsReady()) std::this_thread::yield();
  }

  Synthetic source;
  RawRowDecoder decoder;
  Loader loader;
};

struct RecordingTransport : BatchTransport {
  using Log = std::vector<std::string>;
  RecordingTransport(Log& log, std::function<void(int64_t)> while_arriving)
      : log_(log), while_arriving_(std::move(while_arriving)) {}
  Batch Start(Batch host) override {
    log_.push_back("start " + std::to_string(host.number));
    return host;
  }
  void Arrive(const Batch& batch) override {
    log_.push_back("arrive " + std::to_string(batch.number));
    while_arriving_(batch.number);
  }
  Log& log_;
  std::function<void(int64_t)> while_arriving_;
};

// Copies have their own memory.
TEST(DeviceFeed, WhatIsForTheHostIsNotCopied) {
  Fixture fixture;
  const Batch host = *fixture.loader.Next(), batch = CopyToDevice(host, at::kCPU);
  for (const char* name : {"images", "labels", "index"}) {
    EXPECT_EQ(batch[name].const_data_ptr() != host[name].const_data_ptr(), std::string(name) != "index") << name;
  }
}

TEST(DeviceFeed, TheNextCopyIsUnderWayWhenABatchIsHandedOut) {
  Fixture fixture;
  RecordingTransport::Log log;
  DeviceFeed feed(fixture.loader, std::make_unique<RecordingTransport>(log, [&](int64_t number) {
                    if (number + 1 < kBatches) fixture.WaitUntilReady();
                  }));
  EXPECT_EQ(feed.Next()->number, 0);
  EXPECT_THAT(log, ElementsAre("start 0", "arrive 0", "start 1"));
  EXPECT_EQ(feed.Next()->number, 1);
  EXPECT_THAT(log, ElementsAre("start 0", "arrive 0", "start 1", "arrive 1", "start 2"));
  EXPECT_EQ(feed.Next()->number, 2);
  EXPECT_FALSE(feed.Next());
  EXPECT_FALSE(feed.Next());
  EXPECT_EQ(log.size(), 2U * kBatches);
}

TEST(DeviceFeed, DoesNotWaitForABatchThatIsLate) {
  std::promise<void> gate;
  const std::shared_future<void> opened = gate.get_future().share();
  Fixture fixture([opened](int64_t number) {
    if (number == 1) opened.wait();
  });
  RecordingTransport::Log log;
  DeviceFeed feed(fixture.loader, std::make_unique<RecordingTransport>(log, [](int64_t) {}));
  EXPECT_EQ(feed.Next()->number, 0);
  EXPECT_THAT(log, ElementsAre("start 0", "arrive 0"));
  gate.set_value();
  EXPECT_EQ(feed.Next()->number, 1);
}

TEST(DeviceFeed, ABadBatchDoesNotSpoilTheOneBefore) {
  Fixture fixture([](int64_t number) {
    if (number == 1) throw DataError("torn");
  });
  RecordingTransport::Log log;
  DeviceFeed feed(fixture.loader, std::make_unique<RecordingTransport>(log, [](int64_t) {}));
  EXPECT_EQ(feed.Next()->number, 0);
  EXPECT_THROW(feed.Next(), DataError);
}

TEST(DeviceFeed, ABatchIsPreparedBeforeItIsCopied) {
  for (const bool on_device : {true, false}) {
    Fixture fixture;
    RecordingTransport::Log log;
    std::unique_ptr<BatchTransport> transport;
    if (on_device) transport = std::make_unique<RecordingTransport>(log, [](int64_t) {});
    DeviceFeed feed(fixture.loader, std::move(transport), [&log](Batch host) {
      log.push_back("prepare " + std::to_string(host.number));
      host.on_host["number"] = at::scalar_tensor(host.number, at::kLong);
      return host;
    });
    for (int64_t number = 0; number < kBatches; ++number) {
      EXPECT_EQ(feed.Next()->on_host.at("number").item<int64_t>(), number);
    }
    EXPECT_FALSE(feed.Next());
    log.resize(on_device ? 2 : 1);
    EXPECT_EQ(log.front(), "prepare 0");
    EXPECT_EQ(log.back(), on_device ? "start 0" : "prepare 0");
  }
}

}  // namespace
}  // namespace dtrain::data
