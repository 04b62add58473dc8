#include "trainer/report/event_command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "data/shallow_json.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"

extern char** environ;

namespace dtrain::report {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(5);
constexpr int kPipeBytes = 1 << 20;  // some thousand lines

[[noreturn]] void Refuse(int error) {
  throw UsageError(std::string("--on_event: the command cannot be started: ") + std::strerror(error),
                   "try it in a shell, or leave --on_event out");
}

// Starts `command` with `input` as its standard input. Returns its process id.
pid_t Spawn(const std::string& command, int input) {
  constexpr int kFirstOtherDescriptor = 3;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, kFirstOtherDescriptor);  // sockets of this run must end with it
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const char* arguments[] = {"sh", "-c", command.c_str(), nullptr};
  pid_t process = 0;
  const int error = posix_spawn(&process, "/bin/sh", &actions, &attributes, const_cast<char**>(arguments), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) Refuse(error);
  return process;
}

}  // namespace

EventCommand::EventCommand(const std::string& command, Facts facts) : facts_(std::move(facts)) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) Refuse(errno);
  pipe_ = ends[1];
  fcntl(pipe_, F_SETFL, O_NONBLOCK);
  fcntl(pipe_, F_SETPIPE_SZ, kPipeBytes);  // a smaller one serves, too
  try {
    process_ = Spawn(command, ends[0]);
  } catch (...) {
    close(ends[0]);
    close(pipe_);
    throw;
  }
  close(ends[0]);
}

EventCommand::~EventCommand() {
  const auto deadline = Clock::now() + kPatience;
  const auto wait_for_room = [&] {
    while (pipe_ >= 0 && !Flush() && Clock::now() < deadline) {
      pollfd room{.fd = pipe_, .events = POLLOUT, .revents = 0};
      poll(&room, 1, /*milliseconds=*/50);
    }
  };
  wait_for_room();
  if (rest_.empty()) {
    nlohmann::ordered_json line = {{"kind", "end"}, {"finished", result_.has_value()}, {"dropped", dropped_}};
    if (result_) line["result"] = nlohmann::ordered_json::parse(*result_);
    rest_ = line.dump() + "\n";
    wait_for_room();
  }
  if (pipe_ >= 0) close(pipe_);
  if (dropped_ > 0) {
    LogWarning("--on_event: " + std::to_string(dropped_) + " lines were dropped, because the command read too slowly");
  }
  while (!HasEnded() && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (process_ == 0) return;
  LogWarning("--on_event: the command has not finished within " + std::to_string(kPatience.count()) +
             " s of the end and is ended");
  kill(-process_, SIGTERM);
}

void EventCommand::Resume(int64_t step, double epochs_done) {
  nlohmann::ordered_json line = {{"kind", "start"},
                                 {"step", step},
                                 {"epoch", epochs_done},
                                 {"run_dir", facts_.run_directory.string()},
                                 {"config", facts_.config}};
  Send(JsonText(line));
}

void EventCommand::Send(const std::string& json) {
  if (pipe_ < 0) return;
  if (!Flush()) {
    if (pipe_ >= 0) ++dropped_;
    return;
  }
  rest_ = json + "\n";
  const size_t whole = rest_.size();
  Flush();
  if (rest_.size() == whole && pipe_ >= 0) {  // no room for any of it
    rest_.clear();
    ++dropped_;
  }
}

bool EventCommand::Flush() {
  while (!rest_.empty() && pipe_ >= 0) {
    const ssize_t written = write(pipe_, rest_.data(), rest_.size());
    if (written >= 0) {
      rest_.erase(0, static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      LogWarning("--on_event: the command reads no more; the run goes on without it");
      close(std::exchange(pipe_, -1));
      rest_.clear();
    }
  }
  return rest_.empty();
}

bool EventCommand::HasEnded() {
  if (process_ != 0 && waitpid(process_, nullptr, WNOHANG) != 0) process_ = 0;
  return process_ == 0;
}

}  // namespace dtrain::report
