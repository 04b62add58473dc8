// Each case runs in a process of its own, since signal handlers belong to the process.
#include "trainer/loop/stop_signal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

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

TEST(StopSignalsDeathTest, ATimeIsAsGoodAsASignal) {
  const auto stop = [] {
    using std::chrono::hours;
    StopAfter(hours(1'000'000'000));
    if (StopRequested()) _exit(4);
    StopAfter(std::chrono::milliseconds(10));
    while (!StopRequested()) usleep(1000);
    _exit(3);
  };
  EXPECT_EXIT(stop(), testing::ExitedWithCode(3), "");
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
}

TEST(StopSignalsDeathTest, TheEndOfALoginSavesUnlessItIsIgnored) {
  const auto hang_up = [](auto* handler) {
    std::signal(SIGHUP, handler);
    CatchStopSignals();
    StopsAreOrderly();
    raise(SIGHUP);
    _exit(StopRequested() ? 3 : 4);
  };
  EXPECT_EXIT(hang_up(SIG_DFL), testing::ExitedWithCode(3), "");
  EXPECT_EXIT(hang_up(SIG_IGN), testing::ExitedWithCode(4), "");
}

// oneDNN computes with the stack pointer in its own buffers, which a handler's frame overwrote.
TEST(StopSignalsDeathTest, HandlersHaveAStackOfTheirOwn) {
  const auto look = [] {
    CatchStopSignals();
    stack_t stack{};
    sigaltstack(nullptr, &stack);
    if ((stack.ss_flags & SS_DISABLE) != 0) _exit(4);
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGALRM}) {
      struct sigaction action {};
      sigaction(signal, nullptr, &action);
      if ((action.sa_flags & SA_ONSTACK) == 0) _exit(5);
    }
    _exit(3);
  };
  EXPECT_EXIT(look(), testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace dtrain::loop
