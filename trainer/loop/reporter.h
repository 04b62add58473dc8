// Passes a run's numbers on to everything that shows or keeps them (the console, metrics.jsonl, times.jsonl,
// TensorBoard, Prometheus, --on_event), so that the loop reports each thing once. Only rank 0 shows and writes
// anything.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/report/console.h"
#include "trainer/report/metrics_endpoint.h"
#include "trainer/report/metrics_log.h"
#include "trainer/report/run_directory.h"
#include "trainer/report/tensorboard_log.h"

namespace dtrain::loop {

class Reporter {
 public:
  // `files` is empty on ranks other than 0. `health`, null but on the first rank of each machine, is served at
  // --metrics_port. Throws UsageError if rank 0 cannot listen there.
  Reporter(const config::ReportConfig& config, int rank, const report::RunFacts& facts,
           const std::optional<report::RunDirectory>& files, const report::TensorboardLog::Facts& for_tensorboard = {},
           const std::function<report::Health()>& health = nullptr);

  void Note(const std::string& text) { console_->Note(text); }
  // --clear_log: empties metrics.jsonl and removes TensorBoard's events.
  void Clear();
  // The run resumes after `step`: drops what earlier attempts have reported about later steps.
  void Resume(int64_t step, double epochs_done) { Tell(&report::LogSink::Resume, step, epochs_done); }
  // Move the progress bar of the console: after every step, and after every batch of an evaluation.
  void Step(int64_t step, double epoch) { console_->Step(step, epoch); }
  void Evaluating(int64_t done, int64_t total) { console_->Evaluating(done, total); }
  void Train(const report::TrainPoint& point) { Tell(&report::LogSink::Train, point); }
  void Validation(const report::ValPoint& point) {
    Tell(&report::LogSink::Validation, point);
    for (const report::ValPoint& further : point.further) Tell(&report::LogSink::Validation, further);
  }
  void Times(const report::RunTimes& times) { Tell(&report::LogSink::Times, times); }
  void Checkpoint(const report::CheckpointPoint& point) { Tell(&report::LogSink::Checkpoint, point); }
  void Spike(const report::SpikePoint& point) { Tell(&report::LogSink::Spike, point); }
  void FirstBatch(const report::Picture& picture) { Tell(&report::LogSink::FirstBatch, picture); }
  void Epoch(const report::EpochPoint& point) { Tell(&report::LogSink::Epoch, point); }
  // Whether FirstBatch is shown anywhere; the picture takes a moment to draw.
  bool wants_first_batch() const { return tensorboard_ != nullptr; }
  // Writes result.json and the final line. `keeps_result`: a result.json of the same step stays as it is, since the run
  // was already finished when it was started.
  void Finish(report::RunResult result, bool keeps_result = false);

  // Whether the loss with its L2 term is shown (--log_format=table); it costs a pass over the weights.
  bool wants_final_loss() const { return format_ == report::LogFormat::kTable; }

 private:
  // Calls a method of each sink: Tell(&LogSink::Train, point).
  template <typename... Parameters, typename... Arguments>
  void Tell(void (report::LogSink::*method)(Parameters...), const Arguments&... arguments) {
    for (const auto& sink : sinks_) (*sink.*method)(arguments...);
  }
  void ServeMetrics(const config::ReportConfig& config, const report::RunFacts& facts,
                    const std::function<report::Health()>& health);

  report::LogFormat format_;
  std::optional<report::RunDirectory> files_;
  std::shared_ptr<report::Console> console_;
  std::shared_ptr<report::MetricsLog> metrics_;          // rank 0 only
  std::shared_ptr<report::TimesLog> times_;              // rank 0 only
  std::shared_ptr<report::TensorboardLog> tensorboard_;  // rank 0 only, with --tensorboard
  std::vector<std::shared_ptr<report::LogSink>> sinks_;  // in the order in which they are told
  std::unique_ptr<report::MetricsFile> metrics_file_;    // rank 0 only, with --metrics_file
  std::unique_ptr<report::MetricsEndpoint> endpoint_;    // the first rank of each machine, with --metrics_port
};

}  // namespace dtrain::loop
