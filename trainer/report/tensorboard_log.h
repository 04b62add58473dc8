// --tensorboard: writes a run for TensorBoard, as files of events beside metrics.jsonl. Events are messages of
// tensorboard/compat/proto (event, summary, tensor) and of its plugin for hyperparameters, each framed as a TFRecord.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/report/points.h"

namespace dtrain::report {

// The functions below return the bytes of an event.
struct EventTime {
  double seconds = 0;  // when the event is written, since 1970
  int64_t step = 0;    // the step that it belongs to
};

// The first event of every file.
std::string FileVersionEvent(double seconds);
std::string ScalarsEvent(const EventTime& time, const std::vector<std::pair<std::string, double>>& values);

// Returns the content `file` of a file of events without the events of steps after `step`, and without a torn end.
std::string EventsUntil(std::string_view file, int64_t step);

// For rank 0 only. Each start of the program writes a file of its own, because a TensorBoard that is running reads the
// files in the order of their names; the new file tells it from which step on to forget what it has read. Methods throw
// StorageError if they fail.
class TensorboardLog : public LogSink {
 public:
  struct Facts {
    nlohmann::ordered_json config = {};   // the resolved configuration, shown as text
    nlohmann::json hyperparameters = {};  // a flat object of numbers, booleans and texts
  };

  TensorboardLog(std::filesystem::path folder, Facts facts);

  // Removes the events of later steps from existing files.
  void Resume(int64_t step, double epochs_done) override;
  void FirstBatch(const Picture& picture) override;
  void Train(const TrainPoint& point) override;
  void Validation(const ValPoint& point) override;
  void Finish(const RunResult& result) override;

  void Clear() { CutBack(0); }  // for --clear_log

 private:
  std::vector<std::filesystem::path> Files() const;
  void CutBack(int64_t step);
  // Appends events. Creates the file at the first call, so that a run with nothing left to do writes no file.
  void Write(const std::string& events);
  void Begin();

  const std::filesystem::path folder_;
  const Facts facts_;
  int64_t first_step_ = 1;  // the first step of this start of the program
  std::optional<checkpoint::AppendFile> file_;
};

}  // namespace dtrain::report
