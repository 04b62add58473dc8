// The edges of schedules. tests/interop compares whole runs of rates with those of torch, timm, TensorFlow and the
// programs whose commands are understood.
#include "trainer/optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "trainer/config/choices.h"

namespace dtrain::optim {
namespace {

TEST(LearningRate, WsdDecaysAtMostAfterTheWarmup) {
  LrSchedule options = {.flags = {.name = "wsd", .end_lr = 0.2}, .peak = 1, .warmup_steps = 6, .total_steps = 10};
  for (const auto& [decay, rate] : {std::pair{1.0, 1.0}, {2.0, 1.0}, {4.0, 0.6}, {9.0, 0.6}, {0.4, 0.6}}) {
    options.flags.wsd_decay = decay;
    EXPECT_DOUBLE_EQ(LearningRate(options, 7), rate) << decay;
    for (const int64_t after : {10, 99}) EXPECT_DOUBLE_EQ(LearningRate(options, after), 0.2) << decay;
  }
  options.warmup_steps = 10;
  EXPECT_DOUBLE_EQ(LearningRate(options, 9), 0.9);
  EXPECT_DOUBLE_EQ(LearningRate(options, 10), 0.2);
}

// Compares with exact integers: the k-th decay is due when k·d·N samples are seen, which takes k·d·N/G steps, with d
// epochs between decays, N samples and a global batch of G. Tries the steps around each decay for all combinations.
TEST(LearningRate, StepsDecayExactlyWhereTheEpochsEnd) {
  using Wide = __int128;
  int64_t tried = 0;
  for (const int64_t samples : {100LL, 977LL, 50'000LL, 1'281'167LL, 300'000'000LL, 12'000'000'001LL}) {
    for (const int64_t global_batch : {1LL, 3LL, 4LL, 96LL, 256LL, 8192LL}) {
      for (const int64_t hundredths : {1LL, 7LL, 30LL, 110LL, 230LL, 240LL, 700LL, 3000LL, 3333LL}) {
        LrSchedule options{.flags = {.name = "step", .decay_factor = 0.5}, .peak = 1, .warmup_steps = 5};
        options.steps_per_epoch = static_cast<double>(samples) / static_cast<double>(global_batch);
        options.flags.decay_epochs = {static_cast<double>(hundredths) / 100};
        for (const int64_t decays : {1, 2, 3, 10, 29, 30, 90, 1000}) {
          const Wide seen = Wide{decays} * hundredths * samples;  // in hundredths of a sample
          const auto at = static_cast<int64_t>(seen / (Wide{100} * global_batch));
          for (int64_t after = std::max<int64_t>(at - 1, 0); after <= at + 1; ++after) {
            const auto done = static_cast<int64_t>(Wide{after} * global_batch * 100 / (Wide{hundredths} * samples));
            const double expected = std::pow(0.5, static_cast<double>(done));
            ASSERT_EQ(LearningRate(options, after + 5), expected)
                << samples << " / " << global_batch << ", " << hundredths << ", step " << after;
            ++tried;
          }
        }
      }
    }
  }
  EXPECT_GT(tried, 7000);
}

TEST(LearningRate, AnUnknownScheduleIsNoConstantOne) {
  for (const Choice& schedule : config::Schedules()) {
    EXPECT_GT(LearningRate({.flags = {.name = schedule.name}, .peak = 1, .total_steps = 9}, 1), 0) << schedule.name;
  }
  EXPECT_THROW(LearningRate({.flags = {.name = "pol"}, .peak = 1}, 1), std::invalid_argument);
}

}  // namespace
}  // namespace dtrain::optim
