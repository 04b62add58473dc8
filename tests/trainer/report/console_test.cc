#include "trainer/report/console.h"

#include <gmock/gmock.h>

#include <cmath>
#include <condition_variable>

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
  screen.console.Finish({.train_loss = 0.5, .stopped_early = "no better loss"});
  EXPECT_EQ(screen.Take(), "stopped early: no better loss\ntrain_loss=0.5000\n");
  TrainPoint point = kPoint;
  point.metrics = {{"top1", 87.5, 2, true}};
  screen.console.Train(point);
  EXPECT_THAT(screen.Take(), HasSubstr(" loss 0.4321 top1 87.50 lr 0.0911 "));
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
  EXPECT_THAT(BarLine(kContent, 12, 100), EndsWith("eta 0:03:00"));  // the time goes down between two news
  EXPECT_THAT(BarLine(kContent, 1000, 100), EndsWith("eta 0:00:00"));
  EXPECT_EQ(BarLine({.label = "x", .done = 0, .total = 0}, 0, 80).substr(0, 4), "x [.");
  EXPECT_THAT(BarLine({.label = "x", .done = 9, .total = 3}, 0, 80), HasSubstr("#] 100% 9/3"));
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
