#include "trainer/report/metrics_log.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include "tests/temporary_folder.h"
#include "trainer/report/event_command.h"

namespace dtrain::report {
namespace {

TrainPoint TrainAt(int64_t step) { return TrainPoint{.step = step}; }

class LogFileTest : public testing::Test {
 protected:
  TemporaryFolder run;
};

TEST_F(LogFileTest, AppendsAcrossRestartsUnlessCleared) {
  MetricsLog(run / "metrics.jsonl").Train(TrainAt(1));
  MetricsLog(run / "metrics.jsonl").Epoch({1, 2.5});
  EXPECT_EQ(ReadAll(run / "metrics.jsonl"), JsonLine(TrainAt(1)) + "\n" + JsonLine(EpochPoint{1, 2.5}) + "\n");
  MetricsLog log(run / "metrics.jsonl");
  log.Clear();
  log.Train(TrainAt(2));
  EXPECT_EQ(ReadAll(run / "metrics.jsonl"), JsonLine(TrainAt(2)) + "\n");
}

TEST(MetricsLogTest, IsCutBackToTheRestoredStep) {
  const std::string first = JsonLine(TrainAt(50)) + "\n";
  const std::string second = JsonLine(TrainAt(100)) + "\n";
  const std::string epoch = JsonLine(EpochPoint{1, 2.5}) + "\n";  // ends between 100 and 150
  const std::string validation = JsonLine(ValPoint{.step = 105, .epoch = 1}) + "\n";
  const std::string third = JsonLine(TrainAt(150)) + "\n";
  const std::string all = first + second + epoch + validation + third;
  struct Case {
    int64_t step;
    double epochs_done;
    std::string expected;
  };
  const Case cases[] = {
      {0, 0, ""},
      {49, 0.47, ""},
      {50, 0.48, first},
      {102, 0.98, first + second},
      {105, 1 - 1e-12, first + second + epoch + validation},
      {149, 1.4, first + second + epoch + validation},
      {150, 1.42, all},
      {1000, 9.5, all},
  };
  for (const Case& c : cases) {
    TemporaryFolder run;
    WriteAll(run / "metrics.jsonl", all);
    MetricsLog log(run / "metrics.jsonl");
    log.Resume(c.step, c.epochs_done);
    EXPECT_EQ(ReadAll(run / "metrics.jsonl"), c.expected) << c.step;
    log.Train(TrainAt(c.step + 1));  // into the new file, not the one that it replaced
    EXPECT_EQ(ReadAll(run / "metrics.jsonl"), c.expected + JsonLine(TrainAt(c.step + 1)) + "\n");
  }
}

TEST(MetricsLogTest, AnEvaluationOfTheRestoredStepIsToldOnce) {
  TemporaryFolder run;
  const ValPoint first{.step = 10, .epoch = 1}, further{.step = 10, .epoch = 1, .split = "more"};
  for (int attempt = 0; attempt < 2; ++attempt) {
    MetricsLog log(run / "metrics.jsonl");
    log.Resume(10, 1);
    log.Validation(first);
    log.Validation(further);
  }
  EXPECT_EQ(ReadAll(run / "metrics.jsonl"), JsonLine(first) + "\n" + JsonLine(further) + "\n");
}

TEST(MetricsLogTest, TornAndForeignLinesGo) {
  const std::string whole = JsonLine(TrainAt(1)) + "\n";
  for (const std::string torn : {R"({"kind":"train","ste)", "{\"kind\":\"train\",\"step\":1}", "\n\n", "12\n",
                                 "{\"kind\":\"train\",\"step\":\"x\"}\n", "\xff\xfe\n"}) {
    TemporaryFolder run;
    WriteAll(run / "metrics.jsonl", whole + torn);
    MetricsLog(run / "metrics.jsonl").Resume(10, 1);
    EXPECT_EQ(ReadAll(run / "metrics.jsonl"), whole) << torn;
  }
}

SpikePoint SpikeAt(int64_t step) {
  return {.step = step,
          .loss = 9,
          .mean = 2,
          .deviation = 0.5,
          .action = "skip",
          .samples_of_step = 2,
          .samples = {{7, {.file = "a\xff.jpg"}}, {8, {.file = "b.rec", .offset = 64}}}};
}

TEST_F(LogFileTest, NamesTheSamplesAndIsCutBackToTheRestoredStep) {
  SpikeLog log(run / "spikes.jsonl");
  log.Resume(5, 1);
  EXPECT_FALSE(std::filesystem::exists(run / "spikes.jsonl"));
  log.Spike(SpikeAt(12));
  log.Spike(SpikeAt(14));
  const std::string first = JsonLine(SpikeAt(12)) + "\n";
  EXPECT_EQ(ReadAll(run / "spikes.jsonl"), first + JsonLine(SpikeAt(14)) + "\n");
  EXPECT_NE(
      first.find("\"action\":\"skip\",\"samples_of_step\":2,\"samples\":[{\"index\":7,\"file\":\"a\xEF\xBF\xBD.jpg\"},"
                 R"({"index":8,"file":"b.rec","offset":64}]})"),
      std::string::npos)
      << first;
  SpikeLog(run / "spikes.jsonl").Resume(13, 1);
  EXPECT_EQ(ReadAll(run / "spikes.jsonl"), first);
}

TEST_F(LogFileTest, HasSoManyLinesAtMost) {
  SpikeLog log(run / "spikes.jsonl");
  for (int64_t step = 1; step <= SpikeLog::kMostLines + 2; ++step) log.Spike(SpikeAt(step));
  std::string whole = ReadAll(run / "spikes.jsonl");
  EXPECT_EQ(std::count(whole.begin(), whole.end(), '\n'), SpikeLog::kMostLines);
  SpikeLog again(run / "spikes.jsonl");
  again.Resume(SpikeLog::kMostLines, 1);
  again.Spike(SpikeAt(SpikeLog::kMostLines + 3));
  EXPECT_EQ(ReadAll(run / "spikes.jsonl"), whole);
}

std::string Line(int64_t attempt, int64_t step, double startup, double forward) {
  return "{\"attempt\":" + std::to_string(attempt) + ",\"step\":" + std::to_string(step) +
         ",\"startup_seconds\":" + std::to_string(startup) + ",\"forward_seconds\":" + std::to_string(forward) + "}\n";
}

TEST(SplitOfTest, WhatIsDoneAgainWasLost) {
  const TimeSplit split =
      SplitOf(Line(1, 0, 2, 0) + Line(1, 2, 2, 10) + Line(1, 4, 2, 20) + Line(1, 4, 2, 21) + Line(1, 6, 2, 30) +  //
              Line(2, 4, 3, 0) + Line(2, 8, 3, 40));
  EXPECT_EQ(split.attempts, 2);
  EXPECT_EQ(split.kept[Phase::kStarting], 2 + 3);
  EXPECT_EQ(split.kept[Phase::kForward], 21 + 40);  // the last line of step 4 includes its evaluation and save
  EXPECT_EQ(split.lost_seconds, 30 - 21);
}

TEST(SplitOfTest, AnAttemptThatGoesBackFurtherTakesMoreWithIt) {
  const TimeSplit split = SplitOf(Line(1, 0, 1, 0) + Line(1, 2, 1, 10) + Line(1, 4, 1, 20) +  //
                                  Line(2, 4, 1, 0) + Line(2, 6, 1, 10) +                      //
                                  Line(3, 2, 1, 0) + Line(3, 6, 1, 25));
  EXPECT_EQ(split.kept[Phase::kStarting], 1 + 1);
  EXPECT_EQ(split.kept[Phase::kForward], 10 + 25);
  EXPECT_EQ(split.lost_seconds, (20 - 10) + (1 + 10));
}

TEST(SplitOfTest, OtherLinesAreLeftOut) {
  const TimeSplit split = SplitOf("\n[1]\n{}\n\"x\"\n" + Line(1, 3, 1, 2) + "{\"attempt\":1,\"step\":9,\"forw");
  EXPECT_EQ(split.attempts, 1);
  EXPECT_EQ(split.kept.total(), 3);
  EXPECT_EQ(SplitOf("").attempts, 0);
}

TEST_F(LogFileTest, EachStartIsAnAttempt) {
  RunTimes times{.step = 5};
  times.parts[Phase::kStarting] = 0.5;
  times.parts[Phase::kData] = 0.25;
  TimesLog(run / "times.jsonl").Times(times);
  TimesLog second(run / "times.jsonl");
  second.Times(times);
  const std::string rest = R"(,"step":5,"startup_seconds":0.5,"data_wait_seconds":0.25})";
  EXPECT_EQ(ReadAll(run / "times.jsonl"), R"({"attempt":1)" + rest + "\n" + R"({"attempt":2)" + rest + "\n");
  EXPECT_EQ(second.Split().attempts, 2);
  EXPECT_EQ(second.Split().kept[Phase::kData], 0.5);
}

TEST(EventCommand, AFullPipeDropsWholeLinesAndCountsThem) {
  const TemporaryFolder folder;
  const std::string heard = folder.path("heard"), gate = folder.path("gate");
  const auto start = std::chrono::steady_clock::now();
  {
    // Reads nothing until the gate is there.
    EventCommand command("while ! [ -e " + gate + " ]; do sleep 0.01; done; cat > " + heard,
                         {.run_directory = std::string(1000, 'x')});
    for (int i = 0; i < 5000; ++i) command.Resume(i, 0);
    EXPECT_LT(SecondsSince(start), 4);
    folder.Write("gate", "");
  }
  std::istringstream lines(ReadAll(heard));
  int64_t whole = 0;
  nlohmann::json last;
  for (std::string line; std::getline(lines, line); ++whole) last = nlohmann::json::parse(line);
  EXPECT_EQ(last.at("kind"), "end");
  EXPECT_EQ(last.at("finished"), false);
  EXPECT_GT(last.at("dropped"), 0);
  EXPECT_EQ(whole - 1 + last.at("dropped").get<int64_t>(), 5000);
}

}  // namespace
}  // namespace dtrain::report
