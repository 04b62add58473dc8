// Each case runs in a process of its own, since signal handlers belong to the process.
#include "trainer/loop/stop_signal.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "data/signals.h"
#include "models/cpu_operations.h"

namespace dtrain::loop {
namespace {

[[noreturn]] void Hang() {
  while (true) pause();
}

TEST(StopSignalsDeathTest, AHangBeforeTheFirstStepEnds) {
  const auto hang = [] {
    CatchStopSignals(/*patience_seconds=*/1);
    raise(SIGTERM);
    Hang();
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(75), "before the first step");
}

TEST(StopSignalsDeathTest, AfterTheFirstStepThereIsTimeToSave) {
  const auto save = [] {
    CatchStopSignals(/*patience_seconds=*/1);
    raise(SIGTERM);  // during the first step
    StopsAreOrderly();
    pause();  // the alarm ends the pause but not the process
    _exit(StopRequested() ? 3 : 4);
  };
  EXPECT_EXIT(save(), testing::ExitedWithCode(3), "");
}

TEST(StopSignalsDeathTest, TheSecondOfAKindEndsAtOnce) {
  const auto end = [](int second) {
    CatchStopSignals();
    StopsAreOrderly();
    raise(SIGTERM);
    raise(second);
    _exit(StopRequested() ? 3 : 4);
  };
  EXPECT_EXIT(end(SIGTERM), testing::KilledBySignal(SIGTERM), "");
  EXPECT_EXIT(end(SIGUSR1), testing::ExitedWithCode(3), "");
  EXPECT_EXIT(end(SIGUSR2), testing::ExitedWithCode(3), "");
}

// No signal ends process 1, and this one ends none.
TEST(StopSignalsDeathTest, WhoCannotBeEndedExits) {
  EXPECT_EXIT(EndBySignal(SIGURG), testing::ExitedWithCode(128 + SIGURG), "");
}

TEST(StopSignalsDeathTest, AParentThatBlocksThemChangesNothing) {
  const auto stop = [] {
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
    CatchStopSignals();
    StopsAreOrderly();
    raise(SIGTERM);
    _exit(StopRequested() ? 3 : 4);
  };
  EXPECT_EXIT(stop(), testing::ExitedWithCode(3), "");
}

TEST(StopSignalsDeathTest, TheEndOfALoginSavesUnlessItIsIgnored) {
  const auto hang_up = [](auto* handler) {
    std::signal(SIGHUP, handler);
    CatchStopSignals();
    StopsAreOrderly();
    for (int i = 0; i < 2; ++i) raise(SIGHUP);  // by shell and kernel
    _exit(StopRequested() ? 3 : 4);
  };
  EXPECT_EXIT(hang_up(SIG_DFL), testing::ExitedWithCode(3), "");
  EXPECT_EXIT(hang_up(SIG_IGN), testing::ExitedWithCode(4), "");
}

// Where models::Product is oneDNN's, its stack pointer lies in a buffer on the heap, which handlers overwrote.
TEST(StopSignalsDeathTest, HandlersLeaveProductsAlone) {
  const auto multiply = [] {
    CatchStopSignals();
    StopsAreOrderly();
    const itimerval often{.it_interval = {0, 1000}, .it_value = {0, 1000}};
    setitimer(ITIMER_REAL, &often, nullptr);  // OnAlarm does nothing now
    at::set_num_threads(1);
    const at::Tensor x = at::ones({200, 96}), weight = at::ones({1024, 96}).requires_grad_();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (std::chrono::steady_clock::now() < until) {
      models::Product(x, weight, {}).sum().backward();
      if (!weight.grad().eq(200).all().item<bool>()) _exit(4);
      weight.mutable_grad().reset();
    }
    _exit(3);
  };
  EXPECT_EXIT(multiply(), testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace dtrain::loop
