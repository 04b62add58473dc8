// The only call by which the control plane's thread waits is poll().
#include "trainer/control/control_plane.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "data/shown.h"
#include "trainer/control/control_message.h"
#include "trainer/control/gathering.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"

namespace dtrain::control {
namespace {

using nlohmann::json;
using std::chrono::duration;

constexpr auto kSilenceWarning = std::chrono::seconds(2);
// When another rank's failure ends this rank, the main thread gets this time to report the same failure itself.
constexpr auto kOwnFailurePatience = std::chrono::milliseconds(300);
constexpr auto kCausePatience = std::chrono::seconds(1);  // for the server to find out which rank is gone
constexpr auto kFarewellPatience = std::chrono::milliseconds(200);
constexpr const char* kHint =
    "look for the first error in the other ranks' output; the run goes on from its last checkpoint";

std::string Text(Clock::duration time) { return report::Format("%.1f s", duration<double>(time).count()); }

bool IsOwnWork(Phase phase) {
  return phase == Phase::kData || phase == Phase::kForward || phase == Phase::kUpdate || phase == Phase::kEvaluation;
}

report::Failure Lost(const std::string& message) {
  return {.code = ExitCode::kPeerLost, .message = message, .hint = ""};
}

constexpr int64_t kMostMovesOfOwnWork = 1 << 20;  // between two points

constexpr int kNobody = -1;  // the rank of the root cause if it is unknown or this rank only reports it

[[noreturn]] void Throw(const report::Failure& failure) {
  if (failure.code == ExitCode::kUsage) throw UsageError(failure.message, failure.hint);
  if (failure.code == ExitCode::kPreempted) throw Preempted(failure.message, "run the same command again");
  if (failure.code == ExitCode::kPeerLost) throw PeerLostError(failure.message, failure.hint);
  throw Error(failure.code, failure.message, failure.hint);
}

}  // namespace

ControlPlane::ControlPlane(std::function<bool()> stop_requested)
    : options_{.stop_requested = std::move(stop_requested), .end_process = {}} {}

ControlPlane::ControlPlane(ControlPlaneOptions options, Joined joined, std::unique_ptr<ControlServer> server)
    : options_(std::move(options)),
      server_(std::move(server)),
      phase_start_(Clock::now()),
      socket_(std::move(joined.socket)),
      first_place_(", reached at " + Shown(joined.endpoint.host) + ":" + std::to_string(joined.endpoint.port)),
      heard_(phase_start_),
      last_tick_(phase_start_),
      wake_descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

ControlPlane::~ControlPlane() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  eventfd_write(wake_descriptor_, 1);
  thread_.join();
  close(wake_descriptor_);
}

void ControlPlane::WaitForAll(const std::string& config) {
  if (!thread_.joinable()) return;
  // The control plane's thread also sends a requested stop, but possibly only after training has begun.
  if (options_.stop_requested()) Post(ControlLine({{"kind", "stop"}}));
  Post(ControlLine({{"kind", "config"}, {"config", json::parse(config)}}));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return going_ || end_; });
  if (!end_) return;
  LetMainThreadEnd(lock);
  Throw(*end_);
}

// Makes the main thread the one that ends the process, unless the control plane's thread is already ending it.
void ControlPlane::LetMainThreadEnd(std::unique_lock<std::mutex>& lock) {
  if (thread_ends_) changed_.wait(lock, [this] { return ended_; });
  main_ends_ = true;
  changed_.notify_all();
}

void ControlPlane::Enter(Phase phase) {
  const auto now = Clock::now();
  if (IsOwnWork(phase_)) work_nanoseconds_ += std::chrono::nanoseconds(now - phase_start_).count();
  phase_start_ = now;
  // Not counted, because only rank 0 enters them at times: it may be the only one to save, and after a save before the
  // first step it goes back to kStarting. It is not ahead of the others by that.
  if (phase != Phase::kSaving && phase != Phase::kStarting) ++moves_;
  // Who waits there is ahead of all whose own work, which may be of more shards, goes on.
  if (phase == Phase::kExchange) moves_ = std::max(moves_.load(), kMostMovesOfOwnWork);
  phase_ = phase;
}

bool ControlPlane::StopsHere(int64_t steps_done) {
  step_ = steps_done;
  moves_ = 0;
  const int64_t point = ++point_;
  if (!thread_.joinable()) return options_.stop_requested();
  if (point < stop_point_) return false;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return committed_ || stop_point_ > point || ended_; });
  return stop_point_ <= point;
}

void ControlPlane::NoteBadRecord(const data::BadRecord& record, int64_t dataset_size,
                                 const data::QuarantineOptions& options) {
  if (thread_.joinable()) return Post(ControlLine(BadRecordMessage(record, dataset_size, options)));
  const std::lock_guard lock(mutex_);
  ++bad_records_[record.split];
}

int64_t ControlPlane::bad_records(const std::string& split) {
  const std::lock_guard lock(mutex_);
  return bad_records_[split];
}

void ControlPlane::Leave() {
  if (!thread_.joinable()) return;
  Enter(Phase::kLeaving);
  Post(ControlLine({{"kind", "leave"}}));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return all_left_ || ended_; });
}

report::Failure ControlPlane::SettleFailure(report::Failure failure) {
  if (!thread_.joinable()) return failure;
  if (failure.code == ExitCode::kPreempted && !main_ends_) return Leave(), failure;
  std::unique_lock lock(mutex_);
  if (main_ends_) return failure;
  if (failure.code == ExitCode::kPeerLost) {
    posted_ += ControlLine({{"kind", "lost"}, {"message", failure.message}}) + "\n";
    eventfd_write(wake_descriptor_, 1);
    main_is_victim_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kCausePatience, [this] { return thread_ends_; });
  }
  LetMainThreadEnd(lock);
  if (failure.code == ExitCode::kPeerLost) return end_.value_or(failure);
  posted_ +=
      ControlLine({{"kind", "failed"}, {"code", static_cast<int>(failure.code)}, {"message", failure.message}}) + "\n";
  eventfd_write(wake_descriptor_, 1);
  // The server ends with rank 0's process, so this waits until the server has told the other ranks.
  changed_.wait_for(lock, kFarewellPatience, [this] { return all_know_; });
  return failure;
}

// Any error here ends the process, because a rank without this thread could wait for ever.
void ControlPlane::Run(const std::stop_token& stop) {
  try {
    if (const auto failure = ServeConnection(stop)) End(*failure, kNobody);
  } catch (const std::bad_alloc&) {
    End({.code = ExitCode::kOutOfMemory,
         .message = "no memory left to talk to rank 0",
         .hint = "lower --batch_size or --workers"},
        kNobody);
  } catch (const std::exception& error) {
    End({.code = ExitCode::kInternal,
         .message = std::string("the thread that talks to rank 0 has failed: ") + error.what(),
         .hint = "this is a bug of dtrain: please report it with the command line"},
        kNobody);
  }
}

// Serves the connection until this thread is asked to stop (returns empty) or rank 0 is lost (returns the failure).
std::optional<report::Failure> ControlPlane::ServeConnection(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    Wait();
    SendPosted();
    const bool open = socket_.Receive();
    while (const auto line = socket_.NextLine()) {
      try {
        Handle(ParseControlLine(*line, Speaker::kServer));
      } catch (const BadControlLine& bad) {
        return Lost(std::string("rank 0 has sent an invalid message (") + bad.what() + ")");
      }
    }
    const auto now = Clock::now();
    if (!open) {
      return Lost("rank 0 is gone: its process ended without a message, perhaps killed (" + Describe(first_rank_) +
                  first_place_ + ")");
    }
    if (now - last_tick_ < kTick) continue;
    if (auto failure = Watch(now)) return failure;
  }
  return std::nullopt;
}

void ControlPlane::Wait() {
  const short sending = socket_.has_unsent() ? POLLOUT : 0;
  pollfd watched[] = {{socket_.descriptor(), static_cast<short>(POLLIN | sending), 0}, {wake_descriptor_, POLLIN, 0}};
  poll(watched, 2, static_cast<int>(kTick.count() / 2));
  eventfd_t ignored = 0;
  eventfd_read(wake_descriptor_, &ignored);
}

void ControlPlane::SendPosted() {
  {
    const std::lock_guard lock(mutex_);
    if (!posted_.empty()) {
      posted_.pop_back();  // Send ends the line
      socket_.Send(posted_);
      posted_.clear();
      changed_.notify_all();
    }
  }
  socket_.Flush();
}

void ControlPlane::Handle(const json& message) {
  const std::string kind = message.at("kind");
  heard_ = Clock::now();
  if (kind == "tick") {
    first_rank_ = PositionFromJson(message.at("at"));
    first_saves_ = first_rank_.phase == Phase::kSaving;
  } else if (kind == "propose") {
    HandleProposal(message.at("point"));
  } else if (kind == "end") {
    {
      const std::lock_guard lock(mutex_);
      all_know_ = true;
      changed_.notify_all();
    }
    if (const auto cause = message.find("cause"); cause != message.end()) options_.note_cause(*cause);
    End({.code = static_cast<ExitCode>(message.at("code").get<int>()),
         .message = message.at("message"),
         .hint = message.at("hint")},
        message.at("rank"));
  } else if (kind == "bad_records") {
    const std::lock_guard lock(mutex_);
    bad_records_[message.at("split")] = message.at("count");
  } else {
    const std::lock_guard lock(mutex_);
    going_ = going_ || kind == "go";
    all_left_ = all_left_ || kind == "bye";
    committed_ = committed_ || kind == "commit";
    changed_.notify_all();
  }
}

// Writes stop_point_ before it reads point_, while the main thread writes point_ before it reads stop_point_. So at
// least one of the two threads sees the other's write.
void ControlPlane::HandleProposal(int64_t point) {
  stop_point_ = point;
  const int64_t passed = point_;
  if (passed < point) {
    socket_.Send(ControlLine({{"kind", "accept"}, {"point", point}}));
  } else {
    stop_point_ = kNever;
    socket_.Send(ControlLine({{"kind", "reject"}, {"point", point}, {"passed", passed}}));
  }
  const std::lock_guard lock(mutex_);
  changed_.notify_all();  // wakes a main thread that waits because of an earlier proposal
}

std::optional<report::Failure> ControlPlane::Watch(Clock::time_point now) {
  if (now - last_tick_ >= kOwnGap) heard_ += now - last_tick_;
  last_tick_ = now;
  if (!stop_sent_ && options_.stop_requested()) {
    stop_sent_ = true;
    socket_.Send(ControlLine({{"kind", "stop"}}));
  }
  // If the server does not read, no further positions are queued.
  if (!socket_.has_unsent()) socket_.Send(ControlLine({{"kind", "at"}, {"at", ToJson(position())}}));

  const auto silent = now - heard_;
  if (silent >= Milliseconds(options_.comm_timeout_seconds)) {
    return Lost("rank 0 has not answered for " + Text(silent) + ", " + Describe(first_rank_) + first_place_ +
                kPossibleCauses);
  }
  if (server_) return std::nullopt;  // on rank 0 the server itself warns
  const bool told = std::exchange(silence_told_, silent >= kSilenceWarning);
  if (silence_told_ && !told) {
    options_.warn("rank 0 holds up the others: no message from it for " + Text(silent) + " (" + Describe(first_rank_) +
                  first_place_ + ")");
  }
  if (told && !silence_told_) options_.warn("rank 0 is back");
  return std::nullopt;
}

void ControlPlane::End(report::Failure failure, int root_rank) {
  if (failure.hint.empty()) failure.hint = kHint;
  failure.rank = options_.rank;
  failure.world_size = options_.world_size;
  if (const int64_t step = step_; step > 0) failure.step = step;
  {
    std::unique_lock lock(mutex_);
    // If this rank is the root cause, its main thread has told the other ranks and reports the failure itself.
    if (end_ || all_left_ || (root_rank == options_.rank && main_ends_)) return;
    end_ = failure;
    changed_.notify_all();
    changed_.wait_for(lock, kOwnFailurePatience, [this] { return main_ends_ || main_is_victim_; });
    if (main_ends_) return;
    thread_ends_ = true;
    changed_.notify_all();
  }
  options_.end_process(failure);
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void ControlPlane::Post(const std::string& line) {
  const std::lock_guard lock(mutex_);
  posted_ += line + "\n";
  eventfd_write(wake_descriptor_, 1);
}

Position ControlPlane::position() const {
  return {.point = point_,
          .moves = moves_,
          .step = step_,
          .phase = phase_,
          .work_seconds = static_cast<double>(work_nanoseconds_) * 1e-9};
}

}  // namespace dtrain::control
