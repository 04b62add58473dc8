// Who holds up the others: a pure function of what has been heard of each rank and when, so that the tests need no
// clock. Rank 0's control server asks it several times a second.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "trainer/control/position.h"

namespace dtrain::distributed {

class StallWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  // A rank that is silent, or stands still, for `timeout_seconds` ends the run. While it saves it has ten minutes at
  // least, and so have those who wait for it.
  StallWatch(int world_size, double timeout_seconds, Time now);

  void Heard(int rank, const Position& position, Time now);
  void Left(int rank) { ranks_[static_cast<size_t>(rank)].left = true; }
  // This process itself stood still for so long (it was stopped, or the machine slept): nobody else is to blame.
  void Skip(Duration gap);

  struct Finding {
    std::vector<std::string> warnings;  // each is told once
    std::string stall;                  // not empty: the run has to end; names the ranks that hold it up
  };
  Finding Check(Time now);

 private:
  struct Rank {
    Position position;
    Time heard;
    Time moved;
    Time waited;  // for a save, last
    bool left = false;
    bool silence_told = false;
    bool stillness_told = false;
    bool slowness_told = false;
    Position window_start;  // of the comparison of speeds
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
  Time window_start_;
};

}  // namespace dtrain::distributed
