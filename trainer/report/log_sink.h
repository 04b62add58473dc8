// The interface of everything that receives a run's numbers: the console, metrics.jsonl, TensorBoard, the metrics
// endpoint. The training loop reports each number once, to all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/report/points.h"

namespace dtrain::report {

// Methods are called on the main thread of rank 0. A sink overrides those that it needs. A sink whose failures must not
// go unnoticed throws StorageError, which ends the run; a sink that could be slow works in a thread of its own.
class LogSink {
 public:
  virtual ~LogSink() = default;

  // Called once, before all others. The run continues after `step` steps and `epochs_done` (fractional) epochs, both 0
  // for a new run. Everything reported earlier about later steps is void.
  virtual void Resume(int64_t /*step*/, double /*epochs_done*/) {}
  virtual void Train(const TrainPoint& /*point*/) {}
  // Called for each validation set (ValPoint::split), the one that decides first.
  virtual void Validation(const ValPoint& /*point*/) {}
  virtual void Epoch(const EpochPoint& /*point*/) {}
  // The time that this start of the program has spent so far. Called often, and after each evaluation and save.
  virtual void Times(const RunTimes& /*times*/) {}
  virtual void Spike(const SpikePoint& /*point*/) {}
  // A checkpoint is on the disk; called some steps after that.
  virtual void Checkpoint(const CheckpointPoint& /*point*/) {}
  // The images of the first batch. Called at most once, and only if the training starts at step 0.
  virtual void FirstBatch(const Picture& /*picture*/) {}
  // The run is finished.
  virtual void Finish(const RunResult& /*result*/) {}
};

// Forwards calls to all sinks, in the order in which they were added.
class LogSinks {
 public:
  void Add(std::shared_ptr<LogSink> sink) { sinks_.push_back(std::move(sink)); }

  // Calls a method of each sink: Tell(&LogSink::Train, point).
  template <typename... Parameters, typename... Arguments>
  void Tell(void (LogSink::*method)(Parameters...), const Arguments&... arguments) {
    for (const auto& sink : sinks_) (*sink.*method)(arguments...);
  }

 private:
  std::vector<std::shared_ptr<LogSink>> sinks_;
};

}  // namespace dtrain::report
