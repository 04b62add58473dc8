#include "trainer/report/log_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/report/fake_log_sink.h"

namespace dtrain::report {
namespace {

TEST(LogSinks, AllHearEverythingInTheirOrder) {
  std::vector<std::string> heard;
  LogSinks sinks;
  sinks.Add(std::make_shared<FakeLogSink>(&heard, "a "));
  sinks.Add(std::make_shared<LogSink>());  // ignores all calls
  sinks.Add(std::make_shared<FakeLogSink>(&heard, "b "));
  sinks.Tell(&LogSink::Resume, 2, 0.5);
  sinks.Tell(&LogSink::Train, TrainPoint{.step = 3});
  sinks.Tell(&LogSink::Validation, ValPoint{.step = 4});
  sinks.Tell(&LogSink::Epoch, EpochPoint{.epoch = 1});
  sinks.Tell(&LogSink::Times, RunTimes{.step = 6});
  sinks.Tell(&LogSink::FirstBatch, Picture{.width = 7, .height = 1, .png = ""});
  sinks.Tell(&LogSink::Finish, RunResult{.step = 5});
  EXPECT_THAT(heard, testing::ElementsAre("a resume 2", "b resume 2", "a train 3", "b train 3", "a val 4", "b val 4",
                                          "a epoch 1", "b epoch 1", "a times 6", "b times 6", "a picture 7",
                                          "b picture 7", "a finish 5", "b finish 5"));
}

}  // namespace
}  // namespace dtrain::report
