// The phases of a run. Its time is divided into them, in metrics.jsonl, times.jsonl and result.json, and ranks tell
// each other in which they are.
#pragma once

#include <array>
#include <cstddef>

namespace dtrain::report {

enum class Phase {
  kStarting,  // from the start of the process to the first step
  kData,      // waiting for a batch that is not ready
  kForward,   //
  kBackward,  // including the part of the gradients' reduction that it hides
  kExchange,  // exposed communication: waiting for the rest of the reduction, and the exchange of sums and statistics
  kUpdate,    // the update of the weights
  kEvaluation,
  kSaving,   // copying the state to be saved, and waiting for the writer
  kLeaving,  // the end of the run, for which no time is counted
  kOther,    // logging and everything else, of which ranks do not tell each other
};
constexpr size_t kNumPhases = 10;

// The seconds spent in each phase.
struct TimeParts {
  std::array<double, kNumPhases> seconds{};

  double& operator[](Phase phase) { return seconds[static_cast<size_t>(phase)]; }
  double operator[](Phase phase) const { return seconds[static_cast<size_t>(phase)]; }

  double total() const {
    double sum = 0;
    for (const double one : seconds) sum += one;
    return sum;
  }
};

inline TimeParts operator-(TimeParts after, const TimeParts& before) {
  for (size_t i = 0; i < kNumPhases; ++i) after.seconds[i] -= before.seconds[i];
  return after;
}

inline TimeParts operator+(TimeParts one, const TimeParts& other) {
  for (size_t i = 0; i < kNumPhases; ++i) one.seconds[i] += other.seconds[i];
  return one;
}

inline TimeParts operator/(TimeParts whole, double divisor) {
  for (double& one : whole.seconds) one /= divisor;
  return whole;
}

}  // namespace dtrain::report
