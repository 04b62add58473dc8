#include "trainer/report/points.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dtrain::report {
namespace {

TEST(JsonLineTest, HasExactlyTheDocumentedKeys) {
  TrainPoint train{.step = 120,
                   .epoch = 1.5,
                   .loss = 0.1,
                   .lr = 0.25,
                   .speed = 812.5,
                   .data_seconds = 0.5,
                   .step_seconds = 2,
                   .grad_norm = 3.5,
                   .loss_scale = 1024,
                   .time = 1700000000.5};
  EXPECT_EQ(JsonLine(train),
            R"({"kind":"train","step":120,"epoch":1.5,"loss":0.1,"lr":0.25,"images_per_second":812.5,)"
            R"("data_seconds":0.5,"step_seconds":2.0,"grad_norm":3.5,"loss_scale":1024.0,"time":1700000000.5})");
  train.metrics = {{"top1", 87.5, 2, true}};
  EXPECT_NE(JsonLine(train).find(R"("lr":0.25,"top1":87.5,"images_per_second")"), std::string::npos);
  train.metrics.clear();
  train.speed_unit = SpeedUnit::kTokens;
  train.grad_norm.reset();
  train.loss_scale.reset();
  EXPECT_EQ(JsonLine(train), R"({"kind":"train","step":120,"epoch":1.5,"loss":0.1,"lr":0.25,"tokens_per_second":812.5,)"
                             R"("data_seconds":0.5,"step_seconds":2.0,"time":1700000000.5})");
  train.text = TextCounts{.batches = 2, .samples = 8, .tokens = 900, .padding = 100, .seconds = 4};
  EXPECT_NE(JsonLine(train).find(R"("step_seconds":2.0,"tokens":900,"padding_tokens":100,"time":)"), std::string::npos);
  EXPECT_EQ(JsonLine(ValPoint{.step = 3, .epoch = 1, .metrics = {{"top1", 75.5}, {"top5", 92.25}, {"loss", 0.5}}}),
            R"({"kind":"val","step":3,"epoch":1.0,"top1":75.5,"top5":92.25,"loss":0.5})");
  EXPECT_EQ(JsonLine(EpochPoint{2, 12.5}), R"({"kind":"epoch","epoch":2,"epoch_seconds":12.5})");
}

TEST(JsonLineTest, LossesKeepEveryBitAndWhatIsNoNumberIsNull) {
  const double loss = 0.1 + 0.2;
  const std::string line = JsonLine(TrainPoint{.loss = loss});
  EXPECT_EQ(std::stod(line.substr(line.find("\"loss\":") + 7)), loss);
  const TrainPoint broken{.loss = std::numeric_limits<double>::quiet_NaN(),
                          .grad_norm = -std::numeric_limits<double>::infinity()};
  EXPECT_NE(JsonLine(broken).find(R"("loss":null)"), std::string::npos);
  EXPECT_NE(JsonLine(broken).find(R"("grad_norm":null)"), std::string::npos);
}

TEST(JsonLineTest, ALimitedEvaluationSaysOnHowManySamples) {
  ValPoint point{.metrics = {{"loss", 0.5}}, .samples = 320, .samples_of_split = 10000};
  EXPECT_EQ(JsonLine(point),
            R"({"kind":"val","step":0,"epoch":0.0,"loss":0.5,"samples":320,"samples_of_split":10000})");
  EXPECT_EQ(FinalLine({.validation = point}), "val_loss=0.5000 val_samples=320 val_samples_of_split=10000");
  EXPECT_NE(JsonLine(RunResult{.validation = point}).find(R"("val_samples":320,"val_samples_of_split":10000)"),
            std::string::npos);
  point.samples = 9999;
  point.bad_records = 1;  // left out for another reason
  EXPECT_EQ(FinalLine({.validation = point}), "val_loss=0.5000");
  point.split = "my = test";
  EXPECT_EQ(FinalLine({.validation = point}), "val_my___test_loss=0.5000");
}

TEST(JsonLineTest, NamesThatAreNotUtf8AreShown) {
  const ValPoint point{.metrics = {{"loss", 0.5}}, .split = "t\xe9st"};
  EXPECT_NE(JsonLine(point).find("\"split\":\"t\xef\xbf\xbdst\""), std::string::npos);
  for (const std::string& json : {JsonLine(RunResult{.validation = point}), ResultJson({.validation = point})}) {
    EXPECT_NE(json.find("t\xef\xbf\xbdst"), std::string::npos) << json;
  }
  EXPECT_NO_THROW(FairseqLine(point));
}

TEST(ResultJsonTest, NamesTheMetricsAsTheFinalLineDoes) {
  RunResult result{
      .validation =
          ValPoint{.step = 310, .metrics = {{"top1", 75.5, 2, true}, {"top5", 92.25, 2, true}, {"loss", 0.5}}},
      .best = ValPoint{.step = 300, .metrics = {{"top1", 76, 2, true}}},
      .step = 310,
      .epoch = 5,
      .seconds = 12.5,
      .samples_seen = 20000,
      .world_size = 2,
      .speed = 1600};
  EXPECT_EQ(ResultJson(result), R"({
  "val_top1": 75.5,
  "val_top5": 92.25,
  "val_loss": 0.5,
  "best_top1": 76.0,
  "best_step": 300,
  "step": 310,
  "epoch": 5.0,
  "seconds": 12.5,
  "samples_seen": 20000,
  "world_size": 2,
  "images_per_second": 1600.0,
  "smaller_is_better": [
    "val_loss",
    "seconds"
  ]
}
)");
  const std::string line = JsonLine(result);
  EXPECT_EQ(line.rfind(R"({"kind":"result","val_top1":75.5,)", 0), 0u) << line;
  EXPECT_EQ(line.find('\n'), std::string::npos);
  result.validation->further = {ValPoint{.metrics = {{"mae", 1}}, .split = "test"}};
  result.best->metrics = {{"ema_loss", 1}};
  EXPECT_EQ(SmallerIsBetter(result),
            (std::vector<std::string>{"val_loss", "val_test_mae", "best_ema_loss", "seconds"}));
  result.validation.reset();
  result.best.reset();
  EXPECT_EQ(ResultJson(result).rfind("{\n  \"train_loss\": 0.0,\n  \"step\": 310", 0), 0u);
}

// model_best.safetensors has the weights that decided then, whichever decide now.
TEST(ValPoint, TheWeightsThatDecidedGoOnDeciding) {
  ValPoint of_average{.metrics = {{"loss", 1}, {"top1", 2}, {"ema_loss", 3}, {"ema_top1", 4}}, .decides = 2};
  of_average.DecideBy("loss");
  EXPECT_EQ(of_average.decisive().name, "ema_loss");
  EXPECT_TRUE(IsBetter({"loss", 2.5}, of_average.decisive()));
  EXPECT_FALSE(IsBetter({"loss", 3.5}, of_average.decisive()));
  of_average.DecideBy("top1");
  EXPECT_EQ(of_average.decisive().name, "ema_top1");
  ValPoint of_weights{.metrics = {{"loss", 1}}};
  of_weights.DecideBy("ema_loss");
  EXPECT_EQ(of_weights.decisive().name, "loss");
}

Metric Of(double value, bool higher_is_better) { return {"m", value, 2, higher_is_better}; }

TEST(IsBetter, GoesTheMetricsOwnWayAndAnyNumberBeatsNaN) {
  EXPECT_TRUE(IsBetter(Of(2, true), Of(1, true)));
  EXPECT_FALSE(IsBetter(Of(1, true), Of(1, true)));
  EXPECT_TRUE(IsBetter(Of(1, false), Of(2, false)));
  EXPECT_FALSE(IsBetter(Of(2, false), Of(1, false)));
  for (const bool higher : {false, true}) {
    EXPECT_TRUE(IsBetter(Of(1, higher), Of(std::nan(""), higher)));
    EXPECT_FALSE(IsBetter(Of(std::nan(""), higher), Of(1, higher)));
    EXPECT_FALSE(IsBetter(Of(std::nan(""), higher), Of(std::nan(""), higher)));
  }
}

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

// The expected texts were computed in Python, with the rounding and the format of fairseq 0.12 (safe_round,
// format_stat).
TEST(FairseqLineTest, TrainingHasItsKeysInItsOrder) {
  TrainPoint point = Point();
  EXPECT_EQ(FairseqLine(point),
            R"({"epoch":2,"update":1.235,"loss":"9.794","ppl":"888.03","wps":"16098.7","ups":"2","wpb":"8049.4",)"
            R"("bsz":"16.1","num_updates":"120","lr":"0.000123457","gnorm":"1.235","clip":"36","loss_scale":"128",)"
            R"("train_wall":"12","gb_free":"10.3","wall":"100"})");
  point.loss_scale.reset();
  point.clipped.reset();
  point.free_gigabytes.reset();
  EXPECT_TRUE(FairseqLine(point).ends_with(R"("gnorm":"1.235","train_wall":"12","wall":"100"})"));
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
