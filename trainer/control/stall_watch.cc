#include "trainer/control/stall_watch.h"

#include <algorithm>

#include "trainer/report/log.h"

namespace dtrain::control {
namespace {

constexpr double kSilenceWarningSeconds = 2;  // ranks report ten times a second
constexpr double kStillnessWarningSeconds = 30;
constexpr double kWindowSeconds = 2;        // the least time over which speeds are compared
constexpr int64_t kWindowPoints = 5;        // the least number of points that each rank passes in it
constexpr double kSlow = 2;                 // a rank is slow if its work takes this many times the median …
constexpr double kWorthTellingShare = 0.2;  // … and exceeds it by this share of the time between points

double Seconds(StallWatch::Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string Text(double seconds) { return report::Format("%.*f s", seconds < 1 ? 3 : 1, seconds); }

// `phase` is one that ranks tell each other: not kOther.
const char* NameOf(Phase phase) {
  constexpr const char* kNames[] = {"starting",
                                    "waiting for data",
                                    "forward pass",
                                    "backward pass (gradients)",
                                    "statistics (all-reduce)",
                                    "update of the weights",
                                    "evaluation",
                                    "saving",
                                    "end of the run"};
  return kNames[static_cast<size_t>(phase)];
}

}  // namespace

std::string Describe(const Position& position) {
  return "after step " + std::to_string(position.step) + ": " + NameOf(position.phase);
}

nlohmann::json ToJson(const Position& position) {
  return {position.point, position.moves, position.step, static_cast<int>(position.phase), position.work_seconds};
}

Position PositionFromJson(const nlohmann::json& json) {
  return {json.at(0), json.at(1), json.at(2), static_cast<Phase>(json.at(3).get<int>()), json.at(4)};
}

StallWatch::StallWatch(int world_size, double timeout_seconds, Time now)
    : timeout_seconds_(timeout_seconds), ranks_(static_cast<size_t>(world_size)), window_start_(now) {
  for (Rank& rank : ranks_) rank.heard = rank.moved = now;
}

void StallWatch::Heard(int rank, const Position& position, Time now) {
  Rank& heard = ranks_[static_cast<size_t>(rank)];
  if (!(position == heard.position)) heard.moved = now;
  heard.position = position;
  heard.heard = now;
}

void StallWatch::Skip(Duration gap) {
  window_start_ += gap;
  for (Rank& rank : ranks_) {
    rank.heard += gap;
    rank.moved += gap;
  }
}

StallWatch::Finding StallWatch::Check(Time now) {
  Finding finding;
  TellSilence(now, finding.warnings);
  TellStillness(now, finding.warnings);
  TellSlowness(now, finding.warnings);
  for (Rank& rank : ranks_) {
    if (rank.left) continue;
    const bool waits = WaitsForASave(rank);
    if (waits) rank.waited = now;  // after the save, the rank gets the whole timeout again
    const double patience = waits ? std::max(timeout_seconds_, kSavingSeconds) : timeout_seconds_;
    const double still = Seconds(now - (waits ? rank.moved : std::max(rank.moved, rank.waited)));
    const bool silent = Seconds(now - rank.heard) >= timeout_seconds_;
    if (silent || still >= patience) {
      finding.stall = DescribeStall(now);
      break;
    }
  }
  return finding;
}

// Whether this rank saves, or waits for a rank that saves, which is then not ahead of it.
bool StallWatch::WaitsForASave(const Rank& rank) const {
  return std::ranges::any_of(ranks_, [&rank](const Rank& other) {
    return !other.left && other.position.phase == Phase::kSaving && !rank.position.IsBehind(other.position);
  });
}

// Returns the silent ranks, or, if there are none, those that are behind the others.
std::vector<size_t> StallWatch::Laggards(Time now) const {
  std::vector<size_t> silent, behind;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].left) continue;
    if (Seconds(now - ranks_[i].heard) >= timeout_seconds_ / 2) silent.push_back(i);
    if (OthersWaitFor(ranks_[i])) behind.push_back(i);
  }
  return silent.empty() ? behind : silent;
}

// Whether no rank is behind this one and at least one is ahead of it.
bool StallWatch::OthersWaitFor(const Rank& rank) const {
  bool waited_for = false;
  for (const Rank& other : ranks_) {
    if (other.left) continue;
    if (other.position.IsBehind(rank.position)) return false;
    waited_for = waited_for || rank.position.IsBehind(other.position);
  }
  return waited_for;
}

std::string StallWatch::DescribeStall(Time now) const {
  const std::vector<size_t> laggards = Laggards(now);
  if (laggards.empty()) {
    const auto place = std::ranges::find(ranks_, false, &Rank::left);
    return "all ranks have stood still " + Describe(place->position) + ", for " + Text(Seconds(now - place->moved)) +
           " (--comm_timeout)";
  }
  std::string text;
  bool any_silent = false;
  for (const size_t i : laggards) {
    const Rank& rank = ranks_[i];
    const double silence = Seconds(now - rank.heard);
    const bool silent = silence >= timeout_seconds_ / 2;
    any_silent = any_silent || silent;
    text += (text.empty() ? "rank " : "; rank ") + std::to_string(i);
    text +=
        silent ? " has not answered for " + Text(silence) : " has stood still for " + Text(Seconds(now - rank.moved));
    text += ", " + Describe(rank.position) + rank.place;
  }
  return text + (any_silent ? kPossibleCauses : " (the others wait; --comm_timeout)");
}

void StallWatch::TellSilence(Time now, std::vector<std::string>& warnings) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    const double silent = Seconds(now - rank.heard);
    const bool told = rank.silence_told;
    rank.silence_told = !rank.left && silent >= kSilenceWarningSeconds;
    if (rank.silence_told && !told) {
      warnings.push_back("rank " + std::to_string(i) + " holds up the others: no message from it for " + Text(silent) +
                         " (" + Describe(rank.position) + rank.place + ")");
    }
    if (told && !rank.silence_told && !rank.left) warnings.push_back("rank " + std::to_string(i) + " is back");
  }
}

void StallWatch::TellStillness(Time now, std::vector<std::string>& warnings) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    const double still = Seconds(now - rank.moved);
    const bool holds_up = !rank.left && !rank.silence_told &&
                          still >= std::min(kStillnessWarningSeconds, timeout_seconds_ / 2) && OthersWaitFor(rank);
    if (holds_up && !rank.stillness_told) {
      warnings.push_back("rank " + std::to_string(i) + " holds up the others: it has stood still for " + Text(still) +
                         " (" + Describe(rank.position) + rank.place + ")");
    }
    rank.stillness_told = holds_up;
  }
}

// Compares the time that ranks spend on their own work, without collectives: in collectives all wait for the slowest.
void StallWatch::TellSlowness(Time now, std::vector<std::string>& warnings) {
  const double elapsed = Seconds(now - window_start_);
  if (elapsed < kWindowSeconds) return;
  std::vector<double> work;
  for (const Rank& rank : ranks_) {
    const int64_t points = rank.position.point - rank.window_start.point;
    if (rank.left || points < kWindowPoints) return;
    work.push_back((rank.position.work_seconds - rank.window_start.work_seconds) / static_cast<double>(points));
  }
  std::vector<double> sorted = work;
  std::ranges::sort(sorted);
  const double median = sorted[(sorted.size() - 1) / 2];  // with two ranks, the work of the faster one
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    const auto points = static_cast<double>(rank.position.point - rank.window_start.point);
    const bool slow = work[i] > kSlow * median && work[i] - median > kWorthTellingShare * elapsed / points;
    if (slow && !rank.slowness_told) {
      rank.slowness_told = true;
      warnings.push_back("rank " + std::to_string(i) + " is slower than the others: " + Text(work[i]) +
                         " of its own work per step, the median is " + Text(median) + rank.place);
    }
    rank.window_start = rank.position;
  }
  window_start_ = now;
}

Liveness::Answer Liveness::Ask(const Position& position, bool awaits_save, Time now) {
  if (!seen_ || !(position == *seen_)) {
    seen_ = position;
    since_ = now;
  }
  const double still = Seconds(now - since_);
  const double patience = awaits_save ? std::max(timeout_seconds_, kSavingSeconds) : timeout_seconds_;
  return {still < patience, Describe(position) + report::Format(", for %.1f s", still)};
}

}  // namespace dtrain::control
