// Only passes calls on to the sinks; these know formats and files.
#include "trainer/loop/reporter.h"

#include "data/shallow_json.h"
#include "trainer/errors.h"
#include "trainer/report/event_command.h"
#include "trainer/report/log.h"

namespace dtrain::loop {
namespace {

// Returns the step of a result.json; -1 if there is none.
int64_t StepIn(const std::filesystem::path& result_json) {
  constexpr uint64_t kMostBytes = 1 << 24;
  if (!std::filesystem::exists(result_json)) return -1;
  const nlohmann::json result = ParseObject(checkpoint::ReadTextFile(result_json, kMostBytes));
  const auto step = result.find("step");
  return step != result.end() && step->is_number() ? step->get<int64_t>() : -1;
}

}  // namespace

Reporter::Reporter(const config::ReportConfig& config, int rank, const report::RunFacts& facts,
                   const std::optional<report::RunDirectory>& files,
                   const report::TensorboardLog::Facts& for_tensorboard, const std::function<report::Health()>& health)
    : files_(files) {
  const report::Terminal terminal = report::StdoutTerminal();
  format_ = report::ParseLogFormat(config.log_format, terminal.is_terminal);
  console_ = std::make_shared<report::Console>(report::Console::Options{
      .format = format_, .rank = rank, .total_steps = facts.total_steps, .columns = terminal.columns});
  if (files_) {
    metrics_ = std::make_shared<report::MetricsLog>(files_->metrics_jsonl);
    times_ = std::make_shared<report::TimesLog>(files_->times_jsonl);
    sinks_.push_back(metrics_);
    sinks_.push_back(times_);
    sinks_.push_back(std::make_shared<report::SpikeLog>(files_->spikes_jsonl));
    if (config.tensorboard) {
      tensorboard_ = std::make_shared<report::TensorboardLog>(files_->root, for_tensorboard);
      sinks_.push_back(tensorboard_);
    }
    if (!config.on_event.empty()) {
      sinks_.push_back(std::make_shared<report::EventCommand>(
          config.on_event, report::EventCommand::Facts{files_->root, for_tensorboard.config}));
    }
  }
  ServeMetrics(config, facts, health);
  sinks_.push_back(console_);
}

void Reporter::ServeMetrics(const config::ReportConfig& config, const report::RunFacts& facts,
                            const std::function<report::Health()>& health) {
  const std::string& address = config.metrics_address;
  const int port = static_cast<int>(config.metrics_port);
  std::shared_ptr<report::RunMetrics> metrics;
  if (files_ && (port != 0 || !config.metrics_file.empty())) {
    const auto gpus = std::make_shared<report::GpuUseReader>();
    metrics = std::make_shared<report::RunMetrics>(facts, [gpus] { return gpus->Read(); });
    sinks_.push_back(metrics);
  }
  if (files_ && !config.metrics_file.empty()) {
    metrics_file_ = std::make_unique<report::MetricsFile>(config.metrics_file, metrics);
  }
  if (port == 0 || (!metrics && !health)) return;
  try {
    endpoint_ =
        std::make_unique<report::MetricsEndpoint>(address, port, report::MetricsEndpoint::Pages{metrics, health});
  } catch (const UsageError& error) {
    // --metrics_address may be an address of rank 0's machine alone, and several "machines" may be one.
    if (metrics) throw;
    report::LogWarning(error.what());
    return;
  }
  if (metrics) report::LogInfo("metrics: " + report::MetricsUrl(address, port));
}

void Reporter::Clear() {
  if (metrics_) metrics_->Clear();
  if (tensorboard_) tensorboard_->Clear();
}

void Reporter::Finish(report::RunResult result, bool keeps_result) {
  if (times_) result.time_split = times_->Split();
  const bool has_result = files_ && keeps_result && StepIn(files_->result_json) == result.step;
  if (files_ && !has_result) checkpoint::WriteAtomically(files_->result_json, report::ResultJson(result));
  Tell(&report::LogSink::Finish, result);  // the console is the last sink, so that its line is the last of the run
}

}  // namespace dtrain::loop
