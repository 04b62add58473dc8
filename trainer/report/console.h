// What a person sees on stdout while a run goes on, in one of four layouts. It computes nothing but the remaining time:
// all numbers come from the points that metrics.jsonl gets too. The json layout is the lines of metrics.jsonl for
// images, and fairseq's for text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trainer/report/log_sink.h"

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
    int columns = 80;  // of the terminal: the bar never wraps
  };

  // `output` gets text as it is to appear; by default it is written to stdout and flushed.
  explicit Console(Options options, Output output = nullptr);
  // Ends the line of a bar.
  ~Console() override;
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void Start(const Banner& banner);
  void Train(const TrainPoint& point) override;
  void Validation(const ValPoint& point) override;
  void Epoch(const EpochPoint& point) override;
  // A line of its own ("Resumed from …"), above the bar. Not in the json layout, whose lines are all objects.
  void Note(const std::string& text);
  // The table's closing rows and FinalLine (in the json layout the result as an object), the last thing on stdout.
  void Finish(const RunResult& result) override;

 private:
  void Line(const std::string& text);
  void DrawBar(const TrainPoint& point);
  double RemainingSeconds(const TrainPoint& point) const;

  Options options_;
  Output output_;
  std::string bar_;  // as it is drawn now
  bool bar_drawn_ = false;
  bool table_header_ = false;  // printed
};

// "0:03:12", "27:46:40"; "-" where it is unknown.
std::string FormatDuration(double seconds);

}  // namespace dtrain::report
