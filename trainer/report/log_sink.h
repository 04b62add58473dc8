// Who hears a run's numbers: the console, metrics.jsonl, TensorBoard, the metrics endpoint. The loop says each thing
// once, to all.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/report/points.h"

namespace dtrain::report {

// For the loop's thread, on rank 0. What a listener does not care for it leaves alone. A listener that must not fail
// silently throws (StorageError), and the run ends; one that could be slow does its work in a thread of its own.
class LogSink {
 public:
  virtual ~LogSink() = default;

  // The run goes on at `step` with `epochs_done` epochs (a fraction) behind it, 0 and 0 for a new one: what was said of
  // later steps is void. Comes first, once.
  virtual void Resume(int64_t /*step*/, double /*epochs_done*/) {}
  virtual void Train(const TrainPoint& /*point*/) {}
  virtual void Validation(const ValPoint& /*point*/) {}
  virtual void Epoch(const EpochPoint& /*point*/) {}
  // Where the time of this start of the program has gone: after the start, each logged line, evaluation and save.
  virtual void Times(const RunTimes& /*times*/) {}
  // Of a training that begins anew, before its first line.
  virtual void FirstBatch(const Picture& /*picture*/) {}
  // All steps are done.
  virtual void Finish(const RunResult& /*result*/) {}
};

// Tells everyone in the order in which they were added.
class LogSinks : public LogSink {
 public:
  void Add(std::shared_ptr<LogSink> sink) { sinks_.push_back(std::move(sink)); }

  void Resume(int64_t step, double epochs_done) override {
    for (const auto& sink : sinks_) sink->Resume(step, epochs_done);
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
