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
  // The run goes back to its checkpoint of `step`, likewise (--on_spike=rewind).
  virtual void GoBack(int64_t step, double epochs_done) { Resume(step, epochs_done); }
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

// Forwards every call to all sinks, in the order in which they were added.
class LogSinks : public LogSink {
 public:
  void Add(std::shared_ptr<LogSink> sink) { sinks_.push_back(std::move(sink)); }

  void Resume(int64_t step, double epochs_done) override {
    for (const auto& sink : sinks_) sink->Resume(step, epochs_done);
  }
  void GoBack(int64_t step, double epochs_done) override {
    for (const auto& sink : sinks_) sink->GoBack(step, epochs_done);
  }
  void Train(const TrainPoint& point) override {
    for (const auto& sink : sinks_) sink->Train(point);
  }
  void Validation(const ValPoint& point) override {
    for (const auto& sink : sinks_) sink->Validation(point);
  }
  void Epoch(const EpochPoint& point) override {
    for (const auto& sink : sinks_) sink->Epoch(point);
  }
  void Times(const RunTimes& times) override {
    for (const auto& sink : sinks_) sink->Times(times);
  }
  void Spike(const SpikePoint& point) override {
    for (const auto& sink : sinks_) sink->Spike(point);
  }
  void Checkpoint(const CheckpointPoint& point) override {
    for (const auto& sink : sinks_) sink->Checkpoint(point);
  }
  void FirstBatch(const Picture& picture) override {
    for (const auto& sink : sinks_) sink->FirstBatch(picture);
  }
  void Finish(const RunResult& result) override {
    for (const auto& sink : sinks_) sink->Finish(result);
  }

 private:
  std::vector<std::shared_ptr<LogSink>> sinks_;
};

}  // namespace dtrain::report
