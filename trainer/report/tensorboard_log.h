// --tensorboard: the run as TensorBoard shows it, in files of events beside metrics.jsonl.
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

// For rank 0 only. Every start of the program has a file of its own: TensorBoard, which may be reading, goes from one
// to the next by their names, and is told from which step on it has to forget. Failures are StorageError.
class TensorboardLog : public LogSink {
 public:
  struct Facts {
    nlohmann::ordered_json config = {};   // resolved: shown as text
    nlohmann::json hyperparameters = {};  // flat
  };

  TensorboardLog(std::filesystem::path folder, Facts facts);

  // Cuts the files that are there back to `step`.
  void Resume(int64_t step, double epochs_done) override;
  void FirstBatch(const Picture& picture) override;
  void Train(const TrainPoint& point) override;
  void Validation(const ValPoint& point) override;
  void Finish(const RunResult& result) override;

  // --clear_log.
  void Clear() { CutBack(0); }

 private:
  using Scalars = std::vector<std::pair<std::string, double>>;

  std::vector<std::filesystem::path> Files() const;
  void CutBack(int64_t step);
  // A file is begun with the first event: a run that has nothing left to do leaves none.
  void Write(const std::string& events);
  void Begin();

  const std::filesystem::path folder_;
  const Facts facts_;
  int64_t first_step_ = 1;  // of this start of the program
  std::optional<AppendFile> file_;
};

}  // namespace dtrain::report
