// Where the time of a few profiled steps goes, and the table that says so.
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

// On a CPU the host's clock. On a GPU events on the stream that computes: a part lasts from when the device has done
// what was asked for before it to when it has done what belongs to it, whatever the host does meanwhile. Nobody waits
// for them. What is exposed of a wait (for data, for other ranks' gradients) is what that stream waits.
class StepTimeline {
 public:
  // `recorded`: steps are replayed as a whole (--cuda_graphs), so that only data and the rest can be told apart.
  StepTimeline(at::Device device, bool recorded) : device_(device), recorded_(recorded) {}

  // From now on.
  void Enter(report::TimePart part);
  // The end of a step: what comes until the next Enter is none of it.
  void Leave() { Add(std::nullopt); }

  // Of all steps together; the device has done them.
  report::TimeParts Seconds() const;

 private:
  struct Mark {
    std::optional<report::TimePart> part;
    std::chrono::steady_clock::time_point time;
    std::optional<c10::Event> event;
  };
  void Add(std::optional<report::TimePart> part);

  at::Device device_;
  bool recorded_;
  std::vector<Mark> marks_;
};

// Lines: "forward pass   12.3 ms   45.6 %" … "a step". `seconds` is of so many steps together.
std::vector<std::string> StepTable(const report::TimeParts& seconds, int64_t first, int64_t last, bool recorded);

}  // namespace dtrain::loop
