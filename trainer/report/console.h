// Shows a run on stdout, in one of four layouts: a bar with lines above it, lines that begin with the time of day, the
// table of the AWS ImageNet script, and JSON (the lines of metrics.jsonl for images, fairseq's lines for text). It
// computes only the remaining time; all other numbers come from the points that metrics.jsonl gets, too.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "trainer/report/points.h"
#include "trainer/report/progress_bar.h"

namespace dtrain::report {

enum class LogFormat { kBar, kTable, kJson, kPlain };

// `name` is auto, bar, table or json, else throws UsageError. auto and bar are kBar on a terminal, kPlain elsewhere.
LogFormat ParseLogFormat(const std::string& name, bool is_terminal);

struct Terminal {
  bool is_terminal = false;
  int columns = 80;
};
// Returns the terminal that stdout is connected to.
Terminal StdoutTerminal();

struct Banner {
  std::string model;
  std::string task;  // the name of what is learned; not shown if empty
  int64_t parameters = 0;
  int64_t frozen = 0;  // how many of them do not learn
  std::string device;  // e.g. "cpu" or "NVIDIA H100"
  int world_size = 1;
  std::string deterministic = {};  // what --deterministic promises; not shown if empty
  int64_t train_samples = 0;
  int64_t val_samples = 0;
  std::string classes = {};  // their number and the first few names; not shown if empty
  int64_t global_batch_size = 0;
  int64_t total_steps = 0;
  double epochs = 0;
  std::string run_directory;
};

// Used on the main thread. Ranks other than 0 print nothing.
class Console : public LogSink {
 public:
  using Output = std::function<void(const std::string&)>;

  struct Options {
    LogFormat format = LogFormat::kPlain;
    int rank = 0;
    int64_t total_steps = 0;
    int columns = 80;                              // used with an `output`; otherwise the terminal is asked
    std::function<std::string()> clock = nullptr;  // returns the time of day; null for this machine's, as 17:05:09
  };

  // `output` gets all text, unchanged; if it is null, text is written to stdout and flushed.
  explicit Console(Options options, Output output = nullptr);
  // Ends the bar's line. Only one console with a bar may exist at a time, because the log writes above its bar.
  ~Console() override;
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void Start(const Banner& banner);
  // Update the bar, and do nothing in other layouts. Called after every step, and after every batch of an evaluation
  // with the number of batches done and to do.
  void Step(int64_t step, double epoch);
  void Evaluating(int64_t done, int64_t total);
  void Train(const TrainPoint& point) override;
  void Validation(const ValPoint& point) override;
  void Epoch(const EpochPoint& point) override;
  // Prints a line of text such as "Resumed from …". Prints nothing in the json layout, where each line is an object.
  void Note(const std::string& text);
  // Prints the table's closing rows and FinalLine, or the result as an object in the json layout. Nothing follows it.
  void Finish(const RunResult& result) override;

 private:
  using Clock = std::chrono::steady_clock;
  // Prints a line; above the bar, if there is one.
  void Line(const std::string& text);
  // Prints a line that begins with the time of day in the plain layout.
  void Event(const std::string& text);
  void ShowTraining(int64_t step, double epoch);
  double RemainingSeconds(int64_t step) const;

  Options options_;
  Output output_;
  std::unique_ptr<ProgressBar> bar_;  // null in the other layouts
  bool table_header_ = false;         // the table's header is printed
  // The state of the bar and of the lines above it.
  std::optional<TrainPoint> last_point_;
  bool point_is_of_epoch_ = false;                  // last_point_ is of the current epoch
  double step_seconds_ = 0;                         // a running mean with a bar, else that of the last point
  std::pair<int64_t, double> last_shown_ = {0, 0};  // step and epoch of training that the bar showed last
  std::optional<Clock::time_point> last_step_, evaluation_start_;
};

}  // namespace dtrain::report
