// A sink that records each call as a word and a number.
#pragma once

#include <string>
#include <vector>

#include "trainer/report/points.h"

namespace dtrain::report {

class FakeLogSink : public LogSink {
 public:
  explicit FakeLogSink(std::vector<std::string>* heard, std::string name = "")
      : heard_(heard), name_(std::move(name)) {}

  void Resume(int64_t step, double /*epochs_done*/) override { Note("resume", step); }
  void Train(const TrainPoint& point) override { Note("train", point.step); }
  void Validation(const ValPoint& point) override { Note("val", point.step); }
  void Epoch(const EpochPoint& point) override { Note("epoch", point.epoch); }
  void Times(const RunTimes& times) override { Note("times", times.step); }
  void FirstBatch(const Picture& picture) override { Note("picture", picture.width); }
  void Finish(const RunResult& result) override { Note("finish", result.step); }

 private:
  void Note(const std::string& what, int64_t number) { heard_->push_back(name_ + what + " " + std::to_string(number)); }

  std::vector<std::string>* heard_;
  std::string name_;
};

}  // namespace dtrain::report
