// Only passes calls on to the sinks; these know formats and files.
#include "trainer/loop/reporter.h"

#include "trainer/report/event_command.h"
#include "trainer/report/log.h"

namespace dtrain::loop {

Reporter::Reporter(const config::ReportConfig& config, int rank, const report::RunFacts& facts,
                   const std::optional<report::RunDirectory>& files,
                   const report::TensorboardLog::Facts& for_tensorboard)
    : files_(files) {
  const report::Terminal terminal = report::StdoutTerminal();
  format_ = report::ParseLogFormat(config.log_format, terminal.is_terminal);
  console_ = std::make_shared<report::Console>(report::Console::Options{
      .format = format_, .rank = rank, .total_steps = facts.total_steps, .columns = terminal.columns});
  if (files_) {
    metrics_ = std::make_shared<report::MetricsLog>(files_->metrics_jsonl);
    times_ = std::make_shared<report::TimesLog>(files_->times_jsonl);
    sinks_.Add(metrics_);
    sinks_.Add(times_);
    if (config.tensorboard) {
      tensorboard_ = std::make_shared<report::TensorboardLog>(files_->root, for_tensorboard);
      sinks_.Add(tensorboard_);
    }
    ServeMetrics(config, facts);
    if (!config.on_event.empty()) {
      sinks_.Add(std::make_shared<report::EventCommand>(
          config.on_event, report::EventCommand::Facts{files_->root, for_tensorboard.config}));
    }
  }
  sinks_.Add(console_);
}

void Reporter::ServeMetrics(const config::ReportConfig& config, const report::RunFacts& facts) {
  if (config.metrics_port == 0 && config.metrics_file.empty()) return;
  const auto gpus = std::make_shared<report::GpuUseReader>();
  const auto metrics = std::make_shared<report::RunMetrics>(facts, [gpus] { return gpus->Read(); });
  sinks_.Add(metrics);
  if (config.metrics_port != 0) {
    endpoint_ = std::make_unique<report::MetricsEndpoint>(config.metrics_address, static_cast<int>(config.metrics_port),
                                                          metrics);
    report::LogInfo("metrics: " + report::MetricsUrl(config.metrics_address, static_cast<int>(config.metrics_port)));
  }
  if (!config.metrics_file.empty()) {
    metrics_file_ = std::make_unique<report::MetricsFile>(config.metrics_file, metrics);
  }
}

void Reporter::Clear() {
  if (metrics_) metrics_->Clear();
  if (tensorboard_) tensorboard_->Clear();
}

void Reporter::Finish(report::RunResult result, bool keeps_result) {
  if (times_) result.time_split = times_->Split();
  const bool has_result = files_ && keeps_result && std::filesystem::exists(files_->result_json);
  if (files_ && !has_result) report::WriteTextFile(files_->result_json, report::ResultJson(result));
  sinks_.Finish(result);  // the console is the last sink, so that its line is the last of the run
}

}  // namespace dtrain::loop
