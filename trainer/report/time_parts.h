// The parts into which the time of a run is divided, in metrics.jsonl, times.jsonl and result.json.
#pragma once

#include <array>
#include <cstddef>

namespace dtrain::report {

enum class TimePart {
  kStartUp,        // from the start of the process to the first step
  kDataWait,       // waiting for a batch that is not ready
  kForward,        //
  kBackward,       // including the part of the gradients' reduction that it hides
  kCommunication,  // exposed: waiting for the rest of the reduction, and the exchange of sums and statistics
  kUpdate,         // the update of the weights
  kCheckpoint,     // copying the state to be saved, and waiting for the writer
  kEvaluation,
  kOther,  // logging and everything else
};
constexpr size_t kNumTimeParts = 9;

// The seconds spent in each part.
struct TimeParts {
  std::array<double, kNumTimeParts> seconds{};

  double& operator[](TimePart part) { return seconds[static_cast<size_t>(part)]; }
  double operator[](TimePart part) const { return seconds[static_cast<size_t>(part)]; }

  double total() const {
    double sum = 0;
    for (const double one : seconds) sum += one;
    return sum;
  }
};

inline TimeParts operator-(TimeParts after, const TimeParts& before) {
  for (size_t i = 0; i < kNumTimeParts; ++i) after.seconds[i] -= before.seconds[i];
  return after;
}

inline TimeParts operator+(TimeParts one, const TimeParts& other) {
  for (size_t i = 0; i < kNumTimeParts; ++i) one.seconds[i] += other.seconds[i];
  return one;
}

inline TimeParts operator/(TimeParts whole, double divisor) {
  for (double& one : whole.seconds) one /= divisor;
  return whole;
}

}  // namespace dtrain::report
