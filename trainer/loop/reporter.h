// Everyone who hears of a run's numbers, behind one name: the console and metrics.jsonl. Only rank 0 reports.
#pragma once

#include <memory>
#include <optional>

#include "trainer/config/config.h"
#include "trainer/report/console.h"
#include "trainer/report/metrics_log.h"
#include "trainer/report/run_directory.h"

namespace dtrain::loop {

class Reporter {
 public:
  // Ranks other than 0 pass no files.
  Reporter(const config::ReportConfig& config, int rank, int64_t total_steps,
           const std::optional<report::RunDirectory>& files);

  void Start(const report::Banner& banner) { console_->Start(banner); }
  void Note(const std::string& text) { console_->Note(text); }
  // --clear_log.
  void Clear();
  // The run goes on from here: later lines of metrics.jsonl are dropped.
  void Resume(int64_t step, double epochs_done);
  void Train(const report::TrainPoint& point);
  void Validation(const report::ValPoint& point);
  void Epoch(const report::EpochPoint& point);
  // result.json and the final line. A finished run that was only started again keeps the result.json that it has.
  void Finish(const report::RunResult& result, bool keeps_result = false);

  // The table shows the loss with its L2 term, which costs a pass over the weights.
  bool wants_final_loss() const { return format_ == report::LogFormat::kTable; }

 private:
  report::LogFormat format_;
  std::optional<report::RunDirectory> files_;
  std::unique_ptr<report::Console> console_;
  std::unique_ptr<report::MetricsLog> metrics_;  // rank 0 only
};

}  // namespace dtrain::loop
