// Finds the ranks that hold up the others. It knows only the ranks' positions and when they were received, and reads no
// clock, so tests need none.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "trainer/control/position.h"

namespace dtrain::control {

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
