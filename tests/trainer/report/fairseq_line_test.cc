// The expected texts were computed in Python, with the rounding and the format of fairseq 0.12 (safe_round,
// format_stat).
#include "trainer/report/fairseq_line.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dtrain::report {
namespace {

TrainPoint Point() {
  TrainPoint point{
      .step = 120,
      .epoch = 1.23456,
      .epoch_number = 2,
      .loss = 6.789,
      .lr = 0.00012345678,
      .grad_norm = 9,
      .loss_scale = 128,
      .text = TextCounts{.batches = 25, .samples = 403, .tokens = 201234, .padding = 5000, .seconds = 12.5},
      .mean_grad_norm = 1.23456,
      .clipped = 36,
      .free_gigabytes = 10.26,
      .run_seconds = 99.5};
  return point;
}

TEST(FairseqLineTest, TrainingHasItsKeysInItsOrder) {
  EXPECT_EQ(FairseqLine(Point()),
            R"({"epoch":2,"update":1.235,"loss":"9.794","ppl":"888.03","wps":"16098.7","ups":"2","wpb":"8049.4",)"
            R"("bsz":"16.1","num_updates":"120","lr":"0.000123457","gnorm":"1.235","clip":"36","loss_scale":"128",)"
            R"("train_wall":"12","gb_free":"10.3","wall":"100"})");
}

TEST(FairseqLineTest, WhatARunHasNotIsLeftOut) {
  TrainPoint point = Point();
  point.loss_scale.reset();
  point.clipped.reset();
  point.free_gigabytes.reset();
  const std::string line = FairseqLine(point);
  EXPECT_NE(line.find(R"("gnorm":"1.235","train_wall":"12","wall":"100"})"), std::string::npos) << line;
}

TEST(FairseqLineTest, ValidationHasAPrefix) {
  ValPoint point{.step = 120,
                 .epoch = 1,
                 .metrics = {{"loss", 3.5}, {"perplexity", 33.1}},
                 .text = TextCounts{.batches = 4, .samples = 50, .tokens = 1000, .seconds = 0.5}};
  EXPECT_EQ(FairseqLine(point), R"({"epoch":1,"valid_loss":"5.049","valid_ppl":"33.12","valid_wps":"2000",)"
                                R"("valid_wpb":"250","valid_bsz":"12.5","valid_num_updates":"120"})");
  point.best = 3.25;
  EXPECT_NE(FairseqLine(point).find(R"("valid_num_updates":"120","valid_best_loss":"4.689"})"), std::string::npos);
}

TEST(FairseqLineTest, NumbersAreRoundedAndShortenedAsInPython) {
  TrainPoint point = Point();
  point.step = 1250000;
  point.lr = 6e-7;
  point.loss = 300;
  point.mean_grad_norm = std::nan("");
  const std::string line = FairseqLine(point);
  for (const char* part : {R"("num_updates":"1.25e+06")", R"("lr":"6e-07")", R"("loss":"432.809")",
                           R"("ppl":"1.94243e+130")", R"("gnorm":"nan")"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
  }
  point.epoch = 3.01;  // the last step of the third epoch, whose batch is partly of the fourth
  point.epoch_number = 3;
  EXPECT_EQ(FairseqLine(point).rfind(R"({"epoch":3,"update":3.01,)", 0), 0u);
}

}  // namespace
}  // namespace dtrain::report
