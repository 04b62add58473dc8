// Measures where the time of a few profiled steps goes, and prints it as a table.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/report/time_parts.h"

namespace dtrain::loop {

// On a CPU parts are measured by the host's clock. On a GPU they are measured by events on the stream that computes: a
// part lasts from when the device has finished all earlier work until it has finished the work of the part, whatever
// the host does meanwhile. Recording events makes neither host nor device wait. A wait (for data, for the gradients of
// other ranks) is counted only as far as that stream waits, so what computing hides is left out.
class StepTimeline {
 public:
  // `recorded`: steps may be replayed as a whole (--cuda_graphs), so that only kData, kOther and the step, counted
  // as kForward, can be told apart.
  StepTimeline(at::Device device, bool recorded) : device_(device), recorded_(recorded) {}

  // Begins `part` and ends the one before.
  void Enter(report::Phase part);
  // Ends a step: the time until the next Enter is not counted.
  void Leave() { Add(std::nullopt); }

  // The seconds of all steps together. Called when the device has finished them.
  report::TimeParts Seconds() const;

 private:
  struct Mark {
    std::optional<report::Phase> part;
    std::chrono::steady_clock::time_point time;
    std::optional<c10::Event> event;
  };
  void Add(std::optional<report::Phase> part);

  at::Device device_;
  bool recorded_;
  std::vector<Mark> marks_;
};

// Returns the lines of the table ("  forward   12.30 ms   45.6 %"), per step: `seconds` is the sum over the steps from
// `first` to `last`.
std::vector<std::string> StepTable(const report::TimeParts& seconds, int64_t first, int64_t last, bool recorded);

}  // namespace dtrain::loop
