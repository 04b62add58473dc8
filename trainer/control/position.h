// A rank's position in the run, which it reports to rank 0 several times a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/report/points.h"

namespace dtrain::control {

constexpr auto kTick = std::chrono::milliseconds(100);  // the time between two reports
constexpr double kSavingSeconds = 600;                  // a rank may stand still for at least this long while it saves
constexpr auto kOwnGap = std::chrono::seconds(1);  // a longer time between two ticks: this process itself was stopped

using report::Phase;

// `phase` is one that ranks tell each other: not kOther.
inline const char* NameOf(Phase phase) {
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

// Returns a text such as "after step 6: forward pass".
inline std::string Describe(const Position& position) {
  return "after step " + std::to_string(position.step) + ": " + NameOf(position.phase);
}

inline nlohmann::json ToJson(const Position& position) {
  return {position.point, position.moves, position.step, static_cast<int>(position.phase), position.work_seconds};
}

inline Position PositionFromJson(const nlohmann::json& json) {
  return {json.at(0), json.at(1), json.at(2), static_cast<Phase>(json.at(3).get<int>()), json.at(4)};
}

}  // namespace dtrain::control
