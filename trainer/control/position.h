// Where a rank stands in the run: what it tells rank 0 several times a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace dtrain::distributed {

constexpr auto kTick = std::chrono::milliseconds(100);  // between two things told
constexpr double kSavingSeconds = 600;                  // that a rank may stand still for while it saves
constexpr auto kOwnGap = std::chrono::seconds(1);       // between two ticks: this process itself stood still

enum class Phase { kStarting, kData, kForward, kBackward, kExchange, kUpdate, kEvaluation, kSaving, kLeaving };

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

// All ranks run through the same points and, between two of them, the same phases: (point, moves) says who is behind.
struct Position {
  int64_t point = 0;  // ends of steps and of evaluation batches passed
  int64_t moves = 0;  // phases entered since
  int64_t step = 0;   // steps done
  Phase phase = Phase::kStarting;
  double work_seconds = 0;  // spent so far on this rank's own work: no collective in it

  bool operator==(const Position& other) const {
    return point == other.point && moves == other.moves && phase == other.phase;
  }
  bool IsBehind(const Position& other) const {
    return point != other.point ? point < other.point : moves < other.moves;
  }
};

// Why nothing is heard of a rank, as far as another one can know.
constexpr const char* kPossibleCauses =
    " (its process is stopped, or its machine or the network to it is lost; --comm_timeout)";

// "after step 6: forward pass".
inline std::string Describe(const Position& position) {
  return "after step " + std::to_string(position.step) + ": " + NameOf(position.phase);
}

inline nlohmann::json ToJson(const Position& position) {
  return {position.point, position.moves, position.step, static_cast<int>(position.phase), position.work_seconds};
}

inline Position PositionFromJson(const nlohmann::json& json) {
  return {json.at(0), json.at(1), json.at(2), static_cast<Phase>(json.at(3).get<int>()), json.at(4)};
}

}  // namespace dtrain::distributed
