#include "trainer/report/event_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <sstream>

#include "tests/temporary_folder.h"

namespace dtrain::report {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(EventCommand, HearsALineForEachEventUpToTheEnd) {
  const TemporaryFolder folder;
  const std::string heard = folder.path("heard");
  {
    EventCommand command("cat > " + heard, {.run_directory = "runs/a", .config = {{"model", "resnet18"}}});
    command.Resume(0, 0);
    command.Train({.step = 1, .loss = 0.5});
    command.Spike({.step = 1, .loss = 9, .action = "skip"});
    command.Checkpoint({.step = 1, .path = "runs/a/checkpoints/step-000000001"});
    command.Finish({.train_loss = 0.5, .step = 1});
  }
  std::istringstream lines(ReadAll(heard));
  std::vector<std::string> kinds;
  std::string last;
  for (std::string line; std::getline(lines, line); last = line) {
    kinds.push_back(nlohmann::json::parse(line).at("kind"));
  }
  EXPECT_THAT(kinds, testing::ElementsAre("start", "train", "spike", "checkpoint", "end"));
  EXPECT_THAT(last, AllOf(HasSubstr(R"("finished":true)"), HasSubstr(R"("train_loss":0.5)")));
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

TEST(EventCommand, ADeadCommandEndsNothing) {
  testing::internal::CaptureStderr();
  std::signal(SIGPIPE, SIG_IGN);  // as main does
  {
    EventCommand command("exit 3", {});
    const auto start = std::chrono::steady_clock::now();
    while (SecondsSince(start) < 0.3) command.Train({.step = 1});
    command.Train({.step = 2});
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("the command reads no more"));
  EXPECT_EQ(said.find("reads no more"), said.rfind("reads no more"));
}

}  // namespace
}  // namespace dtrain::report
