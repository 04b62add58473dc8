// Tests with real processes: the "ranks" write a byte, wait, crash or exit as they are told.
#include "trainer/launch/node_launcher.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "data/signals.h"
#include "trainer/errors.h"

namespace dtrain::launch {
namespace {

using testing::ElementsAre;

Launch Ranks(int count) {
  Launch launch;
  launch.world_size = launch.local_world_size = launch.spawns = count;
  return launch;
}

void WaitForever() {
  while (true) pause();
}

// Runs `rank` in each child; in the parent returns what the launcher did.
template <typename Rank>
Forked RunRanks(const Launch& launch, const Rank& rank, const NodeLauncherOptions& options = {}) {
  sigset_t before;
  sigprocmask(SIG_BLOCK, nullptr, &before);
  const Forked forked = ForkLocalRanks(launch, options);
  if (forked.is_rank) {
    rank(forked);
    _exit(0);
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);  // later tests must not inherit blocked signals
  return forked;
}

TEST(NodeLauncher, RanksKnowWhoTheyAre) {
  Launch launch = Ranks(2);
  launch.nnodes = 3;
  launch.node_rank = 2;
  launch.world_size = 6;
  launch.rank = 4;
  launch.master_addr = "h";
  launch.master_port = 29500;
  const auto check = [](const Forked& forked) {
    const Launch& mine = forked.launch;
    const bool right = mine.rank == 4 + mine.local_rank && mine.world_size == 6 && mine.local_world_size == 2 &&
                       mine.master_addr == "h" && mine.master_port == 29500 && mine.spawns == 0 && mine.forked &&
                       forked.listen_fd == -1 && forked.state->step == -1;
    _exit(right ? 0 : 70);
  };
  EXPECT_EQ(RunRanks(launch, check).exit_code, 0);
  const auto alone = [](const Forked& forked) {
    const bool right = forked.launch.master_addr == "127.0.0.1" && forked.launch.master_port > 0 &&
                       forked.launch.token.size() == 32 &&  // the random token
                       (forked.listen_fd >= 0) == (forked.launch.rank == 0);
    _exit(right ? 0 : 70);
  };
  EXPECT_EQ(RunRanks(Ranks(2), alone).exit_code, 0);
}

// The other ranks would wait for ever. The launcher ends them within a second, on a busy machine later.
TEST(NodeLauncher, TheFirstFailureEndsAllSoonWithItsCode) {
  std::vector<int> dead;
  NodeLauncherOptions options;
  options.on_death = [&dead](const RankDeath& death) { dead.push_back(death.rank); };
  const auto began = std::chrono::steady_clock::now();
  const auto rank = [](const Forked& forked) {
    if (forked.launch.rank == 1) _exit(3);
    WaitForever();
  };
  EXPECT_EQ(RunRanks(Ranks(3), rank, options).exit_code, 3);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  EXPECT_THAT(dead, ElementsAre(1));  // not called for ranks that the launcher itself kills
}

TEST(NodeLauncher, AVictimIsNotTheCause) {
  RankDeath cause;
  NodeLauncherOptions options;
  options.on_failure = [&cause](const AttemptEnd& end) { cause = end.cause; };
  const auto peer_lost_first = [](const Forked& forked) {
    if (forked.launch.rank == 0) _exit(4);
    usleep(20'000);  // less than the time that ranks have for their reports
    _exit(5);
  };
  EXPECT_EQ(RunRanks(Ranks(2), peer_lost_first, options).exit_code, 5);
  EXPECT_EQ(cause.rank, 1);
  const auto killed = [](const Forked& forked) {
    if (forked.launch.rank == 0) _exit(4);
    raise(SIGABRT);  // not a signal that sanitizers catch
  };
  EXPECT_EQ(RunRanks(Ranks(2), killed, options).exit_code, 4);
  EXPECT_EQ(cause.rank, 1);
  EXPECT_EQ(cause.signal, SIGABRT);
  const auto slow_to_end = [](const Forked& forked) {
    if (forked.launch.rank == 0) _exit(4);
    forked.state->exit_code = 3;
    WaitForever();
  };
  EXPECT_EQ(RunRanks(Ranks(2), slow_to_end, options).exit_code, 3);
  EXPECT_EQ(cause.rank, 1);
}

TEST(NodeLauncher, AFailureElsewhereThatWouldComeAgainIsNotTriedAgain) {
  std::string reason;
  NodeLauncherOptions options;
  options.max_restarts = 1;
  options.on_failure = [&reason](const AttemptEnd& end) { reason = end.verdict.reason; };
  const auto victim = [](const Forked& forked) {
    forked.state->cause = 3;
    _exit(4);
  };
  EXPECT_EQ(RunRanks(Ranks(2), victim, options).exit_code, 4);
  EXPECT_EQ(reason, "not started again: exit code 3 would only occur again");
}

TEST(NodeLauncher, APreemptionLeavesTimeToSave) {
  const auto rank = [](const Forked& forked) {
    if (forked.launch.rank == 1) usleep(1'500'000);  // longer than ranks have after a failure
    _exit(75);
  };
  NodeLauncherOptions options;
  options.max_restarts = 3;
  EXPECT_EQ(RunRanks(Ranks(2), rank, options).exit_code, 75);
}

TEST(NodeLauncher, RestartsCountOnceTrainingHasBegun) {
  std::vector<std::string> verdicts;
  NodeLauncherOptions options;
  options.max_restarts = 5;
  options.on_failure = [&](const AttemptEnd& end) { verdicts.push_back(end.verdict.reason); };
  int attempt = 0;
  options.on_death = [&attempt](const RankDeath&) { ++attempt; };  // the next attempt's ranks inherit it
  const auto rank = [&attempt](const Forked& forked) {
    if (attempt == 0) _exit(70);  // before the first step, so restart_count does not grow
    if (forked.launch.restart_count != attempt - 1) _exit(2);
    forked.state->step = 10 * attempt;
    if (attempt < 3) raise(SIGKILL);
  };
  EXPECT_EQ(RunRanks(Ranks(1), rank, options).exit_code, 0);
  EXPECT_EQ(verdicts.size(), 3u);
}

// A launcher in a process of its own, whose ranks write a byte to `ready` when they have started.
class SignalledLauncher {
 public:
  explicit SignalledLauncher(void (*rank)(const Forked&)) {
    EXPECT_EQ(pipe(ready_), 0);
    pid_ = fork();
    if (pid_ != 0) {
      close(ready_[1]);
      return;
    }
    close(ready_[0]);
    const Forked forked = ForkLocalRanks(Ranks(2));
    if (!forked.is_rank) _exit(forked.exit_code);
    rank(forked);
    _exit(0);
  }
  ~SignalledLauncher() { close(ready_[0]); }

  static int ready_descriptor() { return ready_[1]; }

  void WaitForBytes(int count) {
    char byte = 0;
    for (int i = 0; i < count; ++i) ASSERT_EQ(read(ready_[0], &byte, 1), 1);
  }
  // The pipe ends when the last process that holds it has ended.
  void WaitForTheEndOfAll() {
    char byte = 0;
    while (read(ready_[0], &byte, 1) > 0) {
    }
  }
  int Status() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    return status;
  }
  void Signal(int signal) { kill(pid_, signal); }

 private:
  static int ready_[2];
  pid_t pid_ = 0;
};
int SignalledLauncher::ready_[2];

void ReportReady(int) { [[maybe_unused]] const ssize_t one = write(SignalledLauncher::ready_descriptor(), ".", 1); }

// Behaves like a training rank: exits with 75 on a request to stop; a second signal of the same kind would kill it.
void StopsWhenAsked(const Forked&) {
  struct sigaction action {};
  action.sa_handler = [](int signal) {
    ReportReady(signal);
    usleep(200'000);  // it saves
    _exit(75);
  };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int signal : kStopSignals) sigaction(signal, &action, nullptr);
  ReportReady(0);
  WaitForever();
}

// Reports that it was asked to stop, and goes on.
void IgnoresRequests(const Forked&) {
  for (const int signal : kStopSignals) std::signal(signal, &ReportReady);
  ReportReady(0);
  WaitForever();
}

TEST(NodeLauncher, PassesSignalsOn) {
  std::signal(SIGHUP, SIG_DFL);  // nohup may ignore it
  for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2, SIGHUP}) {
    SignalledLauncher launcher(&StopsWhenAsked);
    launcher.WaitForBytes(2);
    launcher.Signal(signal);
    launcher.WaitForBytes(2);                       // both were asked
    if (signal == SIGHUP) launcher.Signal(signal);  // by shell and kernel
    const int status = launcher.Status();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 75) << signal << " " << status;
    launcher.WaitForTheEndOfAll();
  }
}

TEST(NodeLauncher, ASecondSignalEndsAllAtOnce) {
  SignalledLauncher launcher(&IgnoresRequests);
  launcher.WaitForBytes(2);
  launcher.Signal(SIGTERM);
  launcher.WaitForBytes(2);  // both were asked: a second signal would merge with a pending one
  launcher.Signal(SIGTERM);
  const int status = launcher.Status();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  launcher.WaitForTheEndOfAll();
}

using testing::HasSubstr;

TEST(RestartPolicy, AsOftenAsAllowedUnlessTheFailureWouldComeAgain) {
  for (const ExitCodeFacts& facts : kExitCodes) {
    const bool is_over = facts.would_recur || facts.code == ExitCode::kDone || facts.code == ExitCode::kPreempted;
    EXPECT_EQ(RestartPolicy(5).AfterFailure(static_cast<int>(facts.code), 10).restart, !is_over) << facts.kind;
  }
  EXPECT_TRUE(RestartPolicy(5).AfterFailure(1, 10).restart);
  EXPECT_FALSE(RestartPolicy(0).AfterFailure(4, 10).restart);
  RestartPolicy policy(2);
  EXPECT_TRUE(policy.AfterFailure(4, 10).restart);
  EXPECT_TRUE(policy.AfterFailure(4, 20).restart);
  const auto verdict = policy.AfterFailure(4, 30);
  EXPECT_FALSE(verdict.restart);
  EXPECT_THAT(verdict.reason, HasSubstr("--max_restarts=2 are used up, at step 30"));
}

TEST(RestartPolicy, ThreeRestartsWithoutProgressEndTheRun) {
  RestartPolicy policy(100), before_training(100);
  EXPECT_TRUE(policy.AfterFailure(4, 7).restart);   // the first attempt
  EXPECT_TRUE(policy.AfterFailure(4, 12).restart);  // got further
  EXPECT_TRUE(policy.AfterFailure(4, 12).restart);
  EXPECT_TRUE(policy.AfterFailure(4, 11).restart);
  const auto verdict = policy.AfterFailure(4, 12);
  EXPECT_FALSE(verdict.restart);
  EXPECT_THAT(verdict.reason, HasSubstr("3 restarts in a row made no progress; the run ends at step 12"));
  EXPECT_EQ(policy.restarts(), 4);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(before_training.AfterFailure(70, -1).restart);
  EXPECT_THAT(before_training.AfterFailure(70, -1).reason, HasSubstr("the run ends before training began"));
}

}  // namespace
}  // namespace dtrain::launch
