// --tensorboard: writes a run for TensorBoard, as files of events beside metrics.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/report/append_file.h"
#include "trainer/report/log_sink.h"

namespace dtrain::report {

// For rank 0 only. Each start of the program writes a file of its own, because a TensorBoard that is running reads the
// files in the order of their names; the new file tells it from which step on to forget what it has read. Methods throw
// StorageError if they fail.
class TensorboardLog : public LogSink {
 public:
  struct Facts {
    nlohmann::ordered_json config = {};   // the resolved configuration, shown as text
    nlohmann::json hyperparameters = {};  // a flat object; see SessionEvent
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
  using Scalars = std::vector<std::pair<std::string, double>>;

  std::vector<std::filesystem::path> Files() const;
  void CutBack(int64_t step);
  // Appends events. Creates the file at the first call, so that a run with nothing left to do writes no file.
  void Write(const std::string& events);
  void Begin();

  const std::filesystem::path folder_;
  const Facts facts_;
  int64_t first_step_ = 1;  // the first step of this start of the program
  std::optional<AppendFile> file_;
};

}  // namespace dtrain::report
