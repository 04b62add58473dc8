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
  sinks.Resume(2, 0.5);
  sinks.Train({.step = 3});
  sinks.Validation({.step = 4});
  sinks.Epoch({.epoch = 1});
  sinks.Times({.step = 6});
  sinks.FirstBatch({.width = 7, .height = 1, .png = ""});
  sinks.Finish({.step = 5});
  EXPECT_THAT(heard, testing::ElementsAre("a resume 2", "b resume 2", "a train 3", "b train 3", "a val 4", "b val 4",
                                          "a epoch 1", "b epoch 1", "a times 6", "b times 6", "a picture 7",
                                          "b picture 7", "a finish 5", "b finish 5"));
}

}  // namespace
}  // namespace dtrain::report
