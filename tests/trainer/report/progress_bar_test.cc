#include "trainer/report/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>

namespace dtrain::report {
namespace {

const ProgressBar::Content kContent{.label = "epoch 1.94",
                                    .done = 120,
                                    .total = 310,
                                    .facts = {{"812 img/s", 3}, {"loss 0.4321", 2}, {"lr 0.0911", 5}},
                                    .remaining_seconds = 192};

TEST(BarLine, LeavesOutWhatMattersLeast) {
  EXPECT_EQ(BarLine(kContent, 0, 100),
            "epoch 1.94 [###########..................]  38% 120/310 812 img/s loss 0.4321 lr 0.0911 eta 0:03:12");
  EXPECT_EQ(BarLine(kContent, 0, 60), "epoch 1.94  38% 120/310 812 img/s loss 0.4321 eta 0:03:12");
  EXPECT_EQ(BarLine(kContent, 0, 50), "epoch 1.94  38% 120/310 loss 0.4321 eta 0:03:12");
  EXPECT_EQ(BarLine(kContent, 0, 18), "epoch 1.94  38%");
  EXPECT_EQ(BarLine(kContent, 0, 5), "epoc");
}

TEST(BarLine, TheRemainingTimeGoesDownBetweenTwoNews) {
  EXPECT_THAT(BarLine(kContent, 12, 100), testing::EndsWith("eta 0:03:00"));
  EXPECT_THAT(BarLine(kContent, 1000, 100), testing::EndsWith("eta 0:00:00"));
}

TEST(BarLine, BoundsOfTheShare) {
  EXPECT_EQ(BarLine({.label = "x", .done = 0, .total = 0}, 0, 80).substr(0, 4), "x [.");
  EXPECT_THAT(BarLine({.label = "x", .done = 9, .total = 3}, 0, 80), testing::HasSubstr("#] 100% 9/3"));
}

TEST(ProgressBar, DrawsItselfAnewWithoutNews) {
  std::mutex mutex;
  std::condition_variable drawn;
  int times = 0;
  ProgressBar bar(
      [&](const std::string&) {
        const std::lock_guard lock(mutex);
        ++times;
        drawn.notify_all();
      },
      [] { return 80; }, /*ticks=*/true);
  bar.Show(kContent);
  std::unique_lock lock(mutex);
  EXPECT_TRUE(drawn.wait_for(lock, std::chrono::seconds(60), [&] { return times >= 2; }));
}

TEST(ProgressBar, OtherLinesComeAboveIt) {
  std::string screen;
  ProgressBar bar([&](const std::string& text) { screen += text; }, [] { return 30; }, /*ticks=*/false);
  bar.Around([&] { screen += "before\n"; });
  EXPECT_EQ(std::exchange(screen, ""), "before\n");
  bar.Show({.label = "x", .done = 1, .total = 2});
  const std::string line = std::exchange(screen, "");
  bar.Around([&] { screen += "while\n"; });
  EXPECT_EQ(std::exchange(screen, ""), "\r\x1b[Kwhile\n" + line);
  bar.End();
  bar.Around([&] { screen += "after\n"; });
  EXPECT_EQ(screen, "\nafter\n");
}

TEST(FormatDurationTest, Edges) {
  EXPECT_EQ(FormatDuration(0), "0:00:00");
  EXPECT_EQ(FormatDuration(59.5), "0:01:00");
  EXPECT_EQ(FormatDuration(100000), "27:46:40");
  EXPECT_EQ(FormatDuration(-1), "-");
  EXPECT_EQ(FormatDuration(std::nan("")), "-");
  EXPECT_EQ(FormatDuration(1e30), "-");
}

}  // namespace
}  // namespace dtrain::report
