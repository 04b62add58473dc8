// Where the time of a run goes. One call announces the phase that a rank is in to the control plane, which watches over
// the ranks, and to those who measure: HostTimes, all the time, and with --profile_steps StepProfiler, which writes a
// trace of a few training steps (every operator, kernel, copy and call into CUDA) and a table of their parts.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/resolve.h"
#include "trainer/control/control_plane.h"
#include "trainer/report/points.h"

namespace dtrain::loop {

// Measures where the host's time goes. Entering a phase ends the one before, so the phases add up to the whole.
//
// If the rank computes on a CPU, the parts are the work itself. With a GPU the host only queues work and waits now and
// then, so it knows only how long it waits for data, saves and evaluates; all other time counts as kForward.
class HostTimes {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts in kStarting, of which `so_far` seconds have passed already.
  HostTimes(bool host_computes, double so_far) : host_computes_(host_computes) {
    times_[report::Phase::kStarting] = so_far;
  }

  bool tells_parts_of_steps() const { return host_computes_; }

  void Enter(report::Phase part) {
    const auto now = Clock::now();
    times_ = UpToNow(now);
    since_ = now;
    part_ = host_computes_ || IsKnownOnGpu(part) ? part : report::Phase::kForward;
  }

  // The time spent in each part up to now, the current one included.
  report::TimeParts UpToNow(Clock::time_point now = Clock::now()) const {
    report::TimeParts times = times_;
    times[part_] += std::chrono::duration<double>(now - since_).count();
    return times;
  }

 private:
  static bool IsKnownOnGpu(report::Phase part) {
    return part == report::Phase::kData || part == report::Phase::kSaving || part == report::Phase::kEvaluation;
  }

  bool host_computes_;
  report::TimeParts times_;
  report::Phase part_ = report::Phase::kStarting;
  Clock::time_point since_ = Clock::now();
};

// Measures where the time of the profiled steps goes. On a CPU parts are measured by the host's clock. On a GPU they
// are measured by events on the stream that computes: a part lasts from when the device has finished all earlier work
// until it has finished the work of the part, whatever the host does meanwhile. Recording events makes neither host nor
// device wait. A wait (for data, for the gradients of other ranks) is counted only as far as that stream waits, so what
// computing hides is left out.
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

// In the trace each step is marked "train_step N". chrome://tracing and Perfetto open it; scripts/dev/gpu_check reads
// it.
class StepProfiler {
 public:
  using Print = std::function<void(const std::string& line)>;

  // Without `steps` the profiler does nothing. It begins with the first of them that is trained. After the last one, or
  // at Finish, it writes `trace`, and the table beside it as .txt; the folder need not exist. `recorded`: see
  // StepTimeline. `print` is called with each line of the table.
  StepProfiler(std::optional<config::StepRange> steps, std::filesystem::path trace, at::Device device, bool recorded,
               Print print);
  ~StepProfiler();

  // Called before and after step `number`, counted from 1. A profiled step takes longer, and the first and the last one
  // wait for the device. After throws StorageError if the trace cannot be written.
  void Before(int64_t number);
  void After(int64_t number);
  // The training ends, perhaps before the last of the steps. Throws as After does.
  void Finish();
  // The step spends its time on `part` from now on. Ignored outside profiled steps.
  void Enter(report::Phase part) {
    if (mark_) timeline_.Enter(part);
  }

 private:
  void Save();
  void WriteTable();

  struct Mark;
  std::optional<config::StepRange> steps_;
  std::filesystem::path trace_;
  at::Device device_;
  bool recorded_;
  Print print_;
  StepTimeline timeline_;
  std::optional<config::StepRange> begun_;  // the steps that have been profiled; empty before them and once written
  std::unique_ptr<Mark> mark_;              // of the step under way; null outside profiled steps
};

class Phases {
 public:
  // `host_computes`: see HostTimes. `alone`: Communicator::is_alone.
  Phases(control::ControlPlane& control, StepProfiler& profiler, bool host_computes, bool alone);

  void Enter(report::Phase phase) {
    if (phase != report::Phase::kOther) control_.Enter(phase);
    CountAs(phase);
  }
  // Counts the time from now on as that of `phase`, without telling the control plane.
  void CountAs(report::Phase phase) {
    if (alone_ && phase == report::Phase::kExchange) phase = report::Phase::kUpdate;  // there is no exchange
    times_.Enter(phase);
    profiler_.Enter(phase);
  }

  const HostTimes& times() const { return times_; }

 private:
  control::ControlPlane& control_;
  StepProfiler& profiler_;
  HostTimes times_;
  bool alone_;
};

}  // namespace dtrain::loop
