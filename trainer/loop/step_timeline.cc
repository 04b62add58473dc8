#include "trainer/loop/step_timeline.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdio>

namespace dtrain::loop {

using report::Phase;

void StepTimeline::Enter(Phase part) {
  if (recorded_ && part != Phase::kData && part != Phase::kOther) part = Phase::kForward;
  if (!marks_.empty() && marks_.back().part == part) return;  // no event may be recorded while a graph is
  Add(part);
}

void StepTimeline::Add(std::optional<Phase> part) {
  Mark mark{.part = part, .time = std::chrono::steady_clock::now(), .event = std::nullopt};
  if (!device_.is_cpu()) {
    mark.event.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);  // with timing
    mark.event->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  marks_.push_back(std::move(mark));
}

report::TimeParts StepTimeline::Seconds() const {
  constexpr double kMilliseconds = 1e-3;
  report::TimeParts seconds;
  for (size_t i = 0; i + 1 < marks_.size(); ++i) {
    const Mark &begin = marks_[i], &end = marks_[i + 1];
    if (!begin.part) continue;
    seconds[*begin.part] += begin.event ? kMilliseconds * begin.event->elapsedTime(*end.event)
                                        : std::chrono::duration<double>(end.time - begin.time).count();
  }
  return seconds;
}

std::vector<std::string> StepTable(const report::TimeParts& seconds, int64_t first, int64_t last, bool recorded) {
  const double total = seconds.total();
  const auto steps = static_cast<double>(last - first + 1);
  std::vector<std::string> lines = {"where the time of steps " + std::to_string(first) + " to " + std::to_string(last) +
                                    " went (profiled steps take longer):"};
  const auto add = [&](const char* name, double spent) {
    char line[96];
    std::snprintf(line, sizeof(line), "  %-24s %10.2f ms %6.1f %%", name, 1e3 * spent / steps,
                  total > 0 ? 100 * spent / total : 0);
    lines.emplace_back(line);
  };
  add("waiting for data", seconds[Phase::kData]);
  if (recorded) {
    add("forward to update", seconds[Phase::kForward]);  // --cuda_graphs=off tells them apart
  } else {
    add("forward", seconds[Phase::kForward]);
    add("backward", seconds[Phase::kBackward]);
    add("exposed communication", seconds[Phase::kExchange]);
    add("update", seconds[Phase::kUpdate]);
  }
  add("other", seconds[Phase::kOther]);
  add("a step", total);
  return lines;
}

}  // namespace dtrain::loop
