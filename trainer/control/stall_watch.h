// Where each rank is, and which ranks hold up the others. The watch knows only the ranks' positions and when they were
// received, and reads no clock, so tests need none.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/report/points.h"

namespace dtrain::control {

constexpr auto kTick = std::chrono::milliseconds(100);  // the time between two reports
constexpr double kSavingSeconds = 600;                  // a rank may stand still for at least this long while it saves
constexpr auto kOwnGap = std::chrono::seconds(1);  // a longer time between two ticks: this process itself was stopped

using report::Phase;

// A rank's position in the run, which it reports to rank 0 several times a second.
//
// All ranks go through the same points and, between two points, through the same phases. So of two ranks the one with
// the smaller (point, moves) is behind.
struct Position {
  int64_t point = 0;  // the number of ends of steps and of evaluation batches that the rank has passed
  int64_t moves = 0;  // the number of phases entered since that point, kStarting and kSaving not counted
  int64_t step = 0;   // the number of steps done
  Phase phase = Phase::kStarting;
  double work_seconds = 0;  // the time spent so far in phases without a collective

  bool operator==(const Position& other) const {
    return point == other.point && moves == other.moves && phase == other.phase;
  }
  bool IsBehind(const Position& other) const {
    return point != other.point ? point < other.point : moves < other.moves;
  }
};

// Ends a message that a rank does not answer: the causes that are possible as far as another rank can know.
constexpr const char* kPossibleCauses =
    " (its process is stopped, or its machine or the network to it is lost; --comm_timeout)";

// Returns a text such as "after step 6: forward pass". The phase is one that ranks tell each other: not kOther.
std::string Describe(const Position& position);

nlohmann::json ToJson(const Position& position);
// The opposite. ParseControlLine has checked `json`.
Position PositionFromJson(const nlohmann::json& json);

// Rank 0's control server calls it on its thread several times a second.
class StallWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  // The run has to end when a rank has been silent, or has stood still, for `timeout_seconds`. A rank that saves, or
  // waits for a rank that saves, may stand still for kSavingSeconds if that is longer.
  StallWatch(int world_size, double timeout_seconds, Time now);

  // Where the rank runs, "host h, process 123". The texts about it say so; without this call they do not.
  void SetPlace(int rank, const std::string& place) { ranks_[static_cast<size_t>(rank)].place = ", " + place; }
  void Heard(int rank, const Position& position, Time now);
  void Left(int rank) { ranks_[static_cast<size_t>(rank)].left = true; }
  // Discounts a time during which this process itself stood still (it was stopped, or the machine slept), because the
  // other ranks are not to blame for it.
  void Skip(Duration gap);

  struct Finding {
    std::vector<std::string> warnings;  // each warning is returned once
    std::string stall;                  // if the run has to end: a text that names the ranks to blame; else empty
  };
  Finding Check(Time now);

 private:
  struct Rank {
    Position position;
    std::string place;  // after a comma; empty if unknown
    Time heard;         // when it was last heard
    Time moved;         // when it was last heard with a new position
    Time waited;        // when it last saved or waited for a save
    bool left = false;
    bool silence_told = false;
    bool stillness_told = false;
    bool slowness_told = false;
    Position window_start;  // its position when the current comparison of speeds began
  };

  std::string DescribeStall(Time now) const;
  std::vector<size_t> Laggards(Time now) const;
  void TellSilence(Time now, std::vector<std::string>& warnings);
  void TellStillness(Time now, std::vector<std::string>& warnings);
  void TellSlowness(Time now, std::vector<std::string>& warnings);
  bool WaitsForASave(const Rank& rank) const;
  bool OthersWaitFor(const Rank& rank) const;

  double timeout_seconds_;
  std::vector<Rank> ranks_;
  Time window_start_;  // when the current comparison of speeds began
};

// Whether this rank goes on, for those who restart a machine that hangs (Kubernetes). All ranks wait for one that
// hangs, so one rank of each machine can answer for the others.
class Liveness {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A rank may stand still for `timeout_seconds` (--comm_timeout), and for kSavingSeconds if that is longer while it
  // waits for a save.
  explicit Liveness(double timeout_seconds) : timeout_seconds_(timeout_seconds) {}

  struct Answer {
    bool alive;
    std::string text;  // such as "after step 6: forward pass, for 0.2 s"
  };
  // The rank is at `position`. Its time there counts from the first call that saw it there.
  Answer Ask(const Position& position, bool awaits_save, Time now);

 private:
  double timeout_seconds_;
  std::optional<Position> seen_;
  Time since_;
};

}  // namespace dtrain::control
