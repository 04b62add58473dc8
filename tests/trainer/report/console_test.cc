#include "trainer/report/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "trainer/errors.h"
#include "trainer/report/points.h"

namespace dtrain::report {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A console with these options, and the text that it prints.
struct Screen {
  std::string text;
  Console console;

  explicit Screen(Console::Options options)
      : console(AtFive(options), [this](const std::string& more) { text += more; }) {}
  static Console::Options AtFive(Console::Options options) {
    options.clock = [] { return "17:05:09"; };
    return options;
  }
  std::string Take() { return std::exchange(text, ""); }
};

const TrainPoint kPoint{.step = 120, .epoch = 1.94, .loss = 0.4321, .lr = 0.0911, .speed = 812, .step_seconds = 1.0105};

Metrics ImageMetrics(double top1, double top5, double loss) {
  return {{"top1", top1, 2, true, "  top1", 3},
          {"top5", top5, 2, true, "    top5", 2},
          {"loss", loss, 4, false, "     loss", 2}};
}

TEST(ConsoleTest, PlainLines) {
  Screen screen({.format = LogFormat::kPlain, .total_steps = 310});
  screen.console.Train(kPoint);
  EXPECT_EQ(screen.Take(), "17:05:09 step 120/310 epoch 1.94 loss 0.4321 lr 0.0911 812 img/s eta 0:03:12\n");
  screen.console.Validation({.step = 310, .epoch = 5, .metrics = ImageMetrics(75.926, 92.9, 0.99124)});
  EXPECT_EQ(screen.Take(), "17:05:09 validation step 310 epoch 5.00 top1 75.93 top5 92.90 loss 0.9912\n");
  screen.console.Epoch({5, 12.34});
  EXPECT_EQ(screen.Take(), "17:05:09 epoch 5 took 12.3 s\n");
  screen.console.Finish({.train_loss = 0.5});
  EXPECT_EQ(screen.Take(), "train_loss=0.5000\n");
}

TEST(ConsoleTest, TrainingMetricsStandBesideTheLoss) {
  TrainPoint point = kPoint;
  point.metrics = {{"top1", 87.5, 2, true}};
  Screen screen({.format = LogFormat::kPlain, .total_steps = 310});
  screen.console.Train(point);
  EXPECT_THAT(screen.Take(), HasSubstr(" loss 0.4321 top1 87.50 lr 0.0911 "));
}

TEST(ConsoleTest, SaysWhyARunEndedEarly) {
  Screen screen({.format = LogFormat::kPlain});
  screen.console.Finish({.train_loss = 0.5, .stopped_early = "no better loss"});
  EXPECT_EQ(screen.Take(), "stopped early: no better loss\ntrain_loss=0.5000\n");
}

// The layout is that of the AWS ImageNet script. The expected rows are from the log of its run on 32 GPUs in the Deep
// Learning AMI guide (steps 13800 and 14050, and the evaluation of step 14075).
TEST(ConsoleTest, TableIsThatOfTheAwsScript) {
  Screen screen({.format = LogFormat::kTable, .total_steps = 14075});
  screen.console.Train(
      {.step = 13800, .epoch = 88.2, .loss = 0.676, .final_loss = 1.082, .lr = 0.00217, .speed = 19827.5});
  screen.console.Train(
      {.step = 14050, .epoch = 89.8, .loss = 0.803, .final_loss = 1.209, .lr = 0.00002, .speed = 20902.4});
  RunResult result;
  result.validation = ValPoint{.step = 14075, .epoch = 90, .metrics = ImageMetrics(75.716, 92.91, 0.97)};
  result.seconds = 6004.354426383972;
  screen.console.Finish(result);
  EXPECT_EQ(screen.Take(),
            "  Step Epoch Speed   Loss  FinLoss   LR\n"
            " 13800  88.2 19827.5  0.676  1.082 0.00217\n"
            " 14050  89.8 20902.4  0.803  1.209 0.00002\n"
            "  step  epoch  top1    top5     loss\n"
            " 14075   90.0  75.716   92.91    0.97\n"
            "Finished in 6004.354\n"
            "val_top1=75.72 val_top5=92.91 val_loss=0.9700\n");
}

TEST(ConsoleTest, AMetricWithoutAHeadingMakesItsOwnColumn) {
  Screen screen({.format = LogFormat::kTable, .total_steps = 20});
  RunResult result;
  result.validation = ValPoint{.step = 20, .epoch = 2, .metrics = {{"loss", 1.5}, {"perplexity", 4.4817, 2}}};
  result.best = ValPoint{.step = 10, .epoch = 1, .metrics = {{"loss", 1.25}}};
  screen.console.Finish(result);
  EXPECT_EQ(screen.Take(),
            "  step  epoch    loss  perplexity\n"
            "    20    2.0  1.5000        4.48\n"
            "Finished in 0.000\n"
            "best loss 1.2500 at step 10 (model_best.safetensors)\n"
            "val_loss=1.5000 val_perplexity=4.48\n");
}

TEST(ConsoleTest, JsonIsTheMetricsLines) {
  Screen screen({.format = LogFormat::kJson, .total_steps = 310});
  screen.console.Start({});
  screen.console.Note("not an object");
  EXPECT_EQ(screen.Take(), "");
  screen.console.Train(kPoint);
  screen.console.Epoch({1, 2});
  EXPECT_EQ(screen.Take(), JsonLine(kPoint) + "\n" + JsonLine(EpochPoint{1, 2}) + "\n");
  const RunResult result{.train_loss = 0.5, .step = 310};
  screen.console.Finish(result);
  EXPECT_EQ(screen.Take(), JsonLine(result) + "\n");
}

TEST(ConsoleTest, TextHasItsPerplexityAndInJsonFairseqsLines) {
  TrainPoint point = kPoint;
  point.speed_unit = SpeedUnit::kTokens;
  point.text = TextCounts{.batches = 10, .samples = 80, .tokens = 900, .padding = 100, .seconds = 2};
  Screen plain({.format = LogFormat::kPlain, .total_steps = 310});
  plain.console.Train(point);
  EXPECT_EQ(plain.Take(), "17:05:09 step 120/310 epoch 1.94 loss 0.4321 ppl 1.54 lr 0.0911 812 tok/s eta 0:03:12\n");
  Screen json({.format = LogFormat::kJson, .total_steps = 310});
  json.console.Train(point);
  const ValPoint validation{.step = 120, .epoch = 2, .metrics = {{"loss", 0.5}}, .text = point.text};
  json.console.Validation(validation);
  EXPECT_EQ(json.Take(), FairseqLine(point) + "\n" + FairseqLine(validation) + "\n");
}

TEST(ConsoleTest, TheBarFitsAnyTerminalAndLinesStayAboveIt) {
  for (int columns = 1; columns <= 200; ++columns) {
    Screen screen({.format = LogFormat::kBar, .total_steps = 310, .columns = columns});
    screen.console.Train(kPoint);
    const std::string drawn = screen.Take();
    ASSERT_THAT(drawn, StartsWith("\r\x1b[K"));
    EXPECT_LE(drawn.size() - 4, static_cast<size_t>(std::max(1, columns - 1))) << columns;
  }
  Screen screen({.format = LogFormat::kBar, .total_steps = 310, .columns = 100});
  screen.console.Train(kPoint);
  const std::string bar = screen.Take().substr(4);
  EXPECT_THAT(bar, HasSubstr("38% 120/310 812 img/s loss 0.4321 lr 0.0911 data 0% eta 0:03:12"));
  screen.console.Note("saved");
  EXPECT_EQ(screen.Take(), "\r\x1b[Ksaved\n\r\x1b[K" + bar);
  screen.console.Finish({.train_loss = 0.5});
  EXPECT_EQ(screen.Take(), "\ntrain_loss=0.5000\n");
}

TEST(ConsoleTest, TheBarMovesWithEachStepAndInEvaluation) {
  Screen screen({.format = LogFormat::kBar, .total_steps = 310, .columns = 120});
  screen.console.Step(1, 0.02);  // before the first logged point
  EXPECT_THAT(screen.Take(), HasSubstr("epoch 0.02 [............................"));
  TrainPoint point = kPoint;
  point.data_seconds = point.step_seconds / 4;
  screen.console.Train(point);
  EXPECT_THAT(screen.Take(), HasSubstr("data 25%"));
  screen.console.Step(121, 1.95);
  EXPECT_THAT(screen.Take(), HasSubstr("39% 121/310 812 img/s loss 0.4321"));
  screen.console.Evaluating(3, 4);
  EXPECT_THAT(screen.Take(), testing::AllOf(HasSubstr("evaluating ["), HasSubstr("75% 3/4")));
  // The loss, which the bar will overwrite, is kept in the epoch's line.
  screen.console.Epoch({2, 12.34});
  EXPECT_THAT(screen.Take(), StartsWith("\r\x1b[Kepoch 2 took 12.3 s, at step 120: loss 0.4321\n"));
  screen.console.Epoch({3, 12.34});  // an epoch without a logged point
  EXPECT_THAT(screen.Take(), StartsWith("\r\x1b[Kepoch 3 took 12.3 s\n"));
}

TEST(ConsoleTest, TheBannerSaysWhatRuns) {
  Screen screen({.format = LogFormat::kPlain});
  screen.console.Start({.model = "resnet50",
                        .parameters = 25557032,
                        .device = "cpu",
                        .world_size = 2,
                        .train_samples = 1281167,
                        .val_samples = 50000,
                        .global_batch_size = 8192,
                        .total_steps = 14075,
                        .epochs = 90,
                        .run_directory = "runs/x"});
  EXPECT_EQ(screen.Take(),
            "dtrain: resnet50, 25,557,032 parameters\n"
            "  device         cpu, 2 ranks\n"
            "  samples        1,281,167 training, 50,000 validation\n"
            "  global batch   8,192\n"
            "  steps          14,075 (90 epochs)\n"
            "  run directory  runs/x\n");
}

TEST(ConsoleTest, TheBannerSaysThatRunsAreRepeatable) {
  for (const std::string promise : {"", "run: the same bits"}) {
    Screen screen({.format = LogFormat::kPlain});
    Banner banner;
    banner.deterministic = promise;
    screen.console.Start(banner);
    EXPECT_EQ(screen.Take().find("  deterministic  " + promise + "\n") != std::string::npos, !promise.empty());
  }
}

TEST(ConsoleTest, NamesOfClassesCannotSteerTheTerminal) {
  Screen screen({.format = LogFormat::kPlain});
  screen.console.Start(
      {.model = "resnet50", .device = "cpu", .classes = "2: c\x1b[31mat\nstep 1/1, dog", .run_directory = "r"});
  EXPECT_THAT(screen.Take(), HasSubstr("  classes        2: c\\x1b[31mat\\nstep 1/1, dog\n"));
}

TEST(ConsoleTest, OnlyRankZeroSpeaks) {
  for (const LogFormat format : {LogFormat::kBar, LogFormat::kTable, LogFormat::kJson, LogFormat::kPlain}) {
    Screen screen({.format = format, .rank = 1, .total_steps = 310});
    screen.console.Start({});
    screen.console.Train(kPoint);
    screen.console.Validation({});
    screen.console.Finish({});
    EXPECT_EQ(screen.Take(), "");
  }
}

TEST(ParseLogFormatTest, AutoDependsOnTheTerminal) {
  EXPECT_EQ(ParseLogFormat("auto", true), LogFormat::kBar);
  EXPECT_EQ(ParseLogFormat("auto", false), LogFormat::kPlain);
  EXPECT_EQ(ParseLogFormat("table", true), LogFormat::kTable);
  EXPECT_EQ(ParseLogFormat("json", false), LogFormat::kJson);
  EXPECT_THROW(ParseLogFormat("xml", false), UsageError);
}

}  // namespace
}  // namespace dtrain::report
