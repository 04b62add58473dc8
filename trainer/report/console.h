// What a person sees on stdout while a run goes on, in one of four layouts: a bar with lines above it, lines that begin
// with the time of day, the table of the AWS ImageNet script, and JSON (the lines of metrics.jsonl for images, and
// fairseq's for text). It computes nothing but the remaining time: all other numbers come from the points that
// metrics.jsonl gets too.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "trainer/report/log_sink.h"
#include "trainer/report/progress_bar.h"

namespace dtrain::report {

enum class LogFormat { kBar, kTable, kJson, kPlain };

// `name` is auto, bar, table or json; auto and bar are a bar on a terminal and plain lines elsewhere. Throws
// UsageError.
LogFormat ParseLogFormat(const std::string& name, bool is_terminal);

struct Terminal {
  bool is_terminal = false;
  int columns = 80;
};
// What stdout is connected to.
Terminal StdoutTerminal();

struct Banner {
  std::string model;
  int64_t parameters = 0;
  int64_t frozen = 0;  // of them
  std::string device;  // e.g. "cpu" or "NVIDIA H100"
  int world_size = 1;
  bool deterministic = false;  // --deterministic=run
  int64_t train_samples = 0;
  int64_t val_samples = 0;
  std::string classes = {};  // how many, and the first few names; empty: not shown
  int64_t global_batch_size = 0;
  int64_t total_steps = 0;
  double epochs = 0;
  std::string run_directory;
};

// For the loop's thread. Ranks other than 0 print nothing.
class Console : public LogSink {
 public:
  using Output = std::function<void(const std::string&)>;

  struct Options {
    LogFormat format = LogFormat::kPlain;
    int rank = 0;
    int64_t total_steps = 0;
    int columns = 80;                              // where `output` is given; otherwise those that the terminal has
    std::function<std::string()> clock = nullptr;  // the time of day; null: this machine's, as 17:05:09
  };

  // `output` gets text as it is to appear; by default it is written to stdout and flushed.
  explicit Console(Options options, Output output = nullptr);
  // Ends the line of a bar. There is one console at a time: the log's lines come above its bar.
  ~Console() override;
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void Start(const Banner& banner);
  // For the bar alone, often: where training is, and how many batches of an evaluation are done.
  void Step(int64_t step, double epoch);
  void Evaluating(int64_t done, int64_t total);
  void Train(const TrainPoint& point) override;
  void Validation(const ValPoint& point) override;
  void Epoch(const EpochPoint& point) override;
  // A line of its own ("Resumed from …"), above the bar. Not in the json layout, whose lines are all objects.
  void Note(const std::string& text);
  // The table's closing rows and FinalLine (in the json layout the result as an object), the last thing on stdout.
  void Finish(const RunResult& result) override;

 private:
  using Clock = std::chrono::steady_clock;
  // As it is, above the bar.
  void Line(const std::string& text);
  // An event: with the time of day, where lines are all that there is.
  void Event(const std::string& text);
  void ShowTraining(int64_t step, double epoch);
  double RemainingSeconds(int64_t step) const;

  Options options_;
  Output output_;
  std::unique_ptr<ProgressBar> bar_;  // null in the other layouts
  bool table_header_ = false;         // printed
  // What the bar and its lines show besides what they are told.
  std::optional<TrainPoint> last_point_;
  bool point_is_of_epoch_ = false;                  // last_point_ is of the epoch that is under way
  double step_seconds_ = 0;                         // a running mean
  std::pair<int64_t, double> last_shown_ = {0, 0};  // step and epoch
  std::optional<Clock::time_point> last_step_, evaluation_start_;
};

}  // namespace dtrain::report
