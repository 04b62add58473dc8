// A fan-out and nothing else, so that the loop says each thing once.
#include "trainer/loop/reporter.h"

namespace dtrain::loop {

Reporter::Reporter(const config::ReportConfig& config, int rank, int64_t total_steps,
                   const std::optional<report::RunDirectory>& files)
    : files_(files) {
  const report::Terminal terminal = report::StdoutTerminal();
  format_ = report::ParseLogFormat(config.log_format, terminal.is_terminal);
  console_ = std::make_unique<report::Console>(report::Console::Options{
      .format = format_, .rank = rank, .total_steps = total_steps, .columns = terminal.columns});
  if (files_) metrics_ = std::make_unique<report::MetricsLog>(files_->metrics_jsonl);
}

void Reporter::Clear() {
  if (metrics_) metrics_->Clear();
}

void Reporter::Resume(int64_t step, double epochs_done) {
  if (metrics_) metrics_->TruncateTo(step, epochs_done);
}

void Reporter::Train(const report::TrainPoint& point) {
  if (metrics_) metrics_->Train(point);
  console_->Train(point);
}

void Reporter::Validation(const report::ValPoint& point) {
  if (metrics_) metrics_->Validation(point);
  console_->Validation(point);
}

void Reporter::Epoch(const report::EpochPoint& point) {
  if (metrics_) metrics_->Epoch(point);
  console_->Epoch(point);
}

void Reporter::Finish(const report::RunResult& result, bool keeps_result) {
  const bool has_result = files_ && keeps_result && std::filesystem::exists(files_->result_json);
  if (files_ && !has_result) report::WriteTextFile(files_->result_json, report::ResultJson(result));
  console_->Finish(result);
}

}  // namespace dtrain::loop
