// Fork without exec: the ranks start with everything loaded. The parent never touches torch.
#include "trainer/launch/node_launcher.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <map>

#include "trainer/errors.h"

namespace dtrain::launch {
namespace {

constexpr int64_t kGraceMs = 30'000;      // for ranks that stop in an orderly way
constexpr int64_t kFailureGraceMs = 800;  // for the others to notice and report by themselves
constexpr int kPeerLost = static_cast<int>(ExitCode::kPeerLost);
constexpr int kPreempted = static_cast<int>(ExitCode::kPreempted);

int ListenOnLoopback(int* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (fd < 0 || bind(fd, generic, length) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, generic, &length) != 0) {
    throw PeerLostError(std::string("cannot open a port on the loopback interface: ") + std::strerror(errno),
                        "is the network of this machine or container up?");
  }
  *port = ntohs(address.sin_port);
  return fd;
}

sigset_t WatchedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals, signal);
  return signals;
}

int64_t MonotonicMs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1'000'000;
}

// The parent's part: children by process id, and what is known of how they ended.
class Watch {
 public:
  explicit Watch(std::map<pid_t, int> ranks) : ranks_(std::move(ranks)) {}

  int UntilAllEnded() {
    const sigset_t signals = WatchedSignals();
    while (!ranks_.empty()) {
      const timespec tick{0, 50'000'000};
      const int signal = sigtimedwait(&signals, nullptr, &tick);
      if (signal > 0 && signal != SIGCHLD) SignalAll(signal);
      Reap();
      if (deadline_ms_ > 0 && MonotonicMs() >= deadline_ms_) SignalAll(SIGKILL);
    }
    return exit_code_;
  }

 private:
  void SignalAll(int signal) {
    for (const auto& [pid, rank] : ranks_) kill(pid, signal);
  }

  void Reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      const bool killed_by_us = deadline_ms_ > 0 && WIFSIGNALED(status) && MonotonicMs() >= deadline_ms_;
      ranks_.erase(pid);
      if (!killed_by_us) Note(WIFEXITED(status) ? WEXITSTATUS(status) : kPeerLost);
    }
  }

  // The first code that is no mere consequence (4) of another rank's failure is the root cause.
  void Note(int code) {
    if (code == 0) return;
    if (exit_code_ == 0 || exit_code_ == kPeerLost) exit_code_ = code;
    const int64_t deadline = MonotonicMs() + (code == kPreempted ? kGraceMs : kFailureGraceMs);
    if (deadline_ms_ == 0) deadline_ms_ = deadline;
  }

  std::map<pid_t, int> ranks_;
  int exit_code_ = 0;
  int64_t deadline_ms_ = 0;  // when those still alive are killed; 0: not set
};

// A child must not outlive its parent, nor get the terminal's Ctrl-C besides the parent's own message of it.
void BecomeChild(pid_t parent, const sigset_t& previous_mask) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kPeerLost);
  setpgid(0, 0);
  sigprocmask(SIG_SETMASK, &previous_mask, nullptr);
}

}  // namespace

Forked ForkLocalRanks(const Launch& launch) {
  Forked forked;
  int port = 0;
  const int listen_fd = ListenOnLoopback(&port);
  const sigset_t watched = WatchedSignals();
  sigset_t previous_mask;
  sigprocmask(SIG_BLOCK, &watched, &previous_mask);
  const pid_t parent = getpid();
  std::map<pid_t, int> ranks;
  for (int rank = 0; rank < launch.spawns; ++rank) {
    const pid_t pid = fork();
    if (pid < 0) {
      const int error = errno;
      for (const auto& [child, number] : ranks) kill(child, SIGKILL);
      throw UsageError("cannot start rank " + std::to_string(rank) + ": " + std::strerror(error),
                       "lower --nproc_per_node, or raise the limit on processes (ulimit -u)");
    }
    if (pid > 0) {
      ranks[pid] = rank;
      continue;
    }
    BecomeChild(parent, previous_mask);
    forked.is_rank = true;
    forked.launch = launch;
    forked.launch.rank = forked.launch.local_rank = rank;
    forked.launch.world_size = forked.launch.local_world_size = launch.spawns;
    forked.launch.master_addr = "127.0.0.1";
    forked.launch.master_port = port;
    forked.launch.spawns = 0;
    forked.listen_fd = rank == 0 ? listen_fd : -1;
    if (rank != 0) close(listen_fd);
    return forked;
  }
  close(listen_fd);
  forked.exit_code = Watch(std::move(ranks)).UntilAllEnded();
  return forked;
}

}  // namespace dtrain::launch
