// Shows a run on stdout, in one of four layouts: a bar with lines above it, lines that begin with the time of day, the
// table of the AWS ImageNet script, and JSON (the lines of metrics.jsonl for images, fairseq's lines for text). It
// computes only the remaining time; all other numbers come from the points that metrics.jsonl gets, too.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/machine/thread.h"
#include "trainer/report/points.h"

namespace dtrain::report {

// Returns "0:03:12" or "27:46:40", and "-" for an unknown (negative, not finite or huge) duration.
std::string FormatDuration(double seconds);

// A progress bar in the last line of a terminal. Other lines appear above it, no matter which thread writes them.
class ProgressBar {
 public:
  struct Fact {
    std::string text;
    int rank = 0;  // if the line is too short, facts of the highest rank are left out first, from rank 5 before the bar
  };
  struct Content {
    std::string label;  // names the current activity
    int64_t done = 0;
    int64_t total = 0;
    std::vector<Fact> facts = {};
    std::optional<double> remaining_seconds = {};  // from the call of Show on; empty if unknown
  };

  // `output` gets all text, with control characters. `columns` returns the width of the terminal, and is called
  // whenever the bar is drawn. With `ticks` a thread of its own draws the bar every second, otherwise Show does.
  ProgressBar(std::function<void(const std::string&)> output, std::function<int()> columns, bool ticks);
  // Ends the line and joins the thread.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Sets the content, which is drawn within a second.
  void Show(Content content);
  void Above(const std::string& text);
  // Erases the bar, calls `write`, which writes lines to the terminal itself, and draws the bar again. Any thread.
  void Around(const std::function<void()>& write);
  // Ends the line; the next Show begins a new one.
  void End();

 private:
  using Clock = std::chrono::steady_clock;
  void Draw();
  void Tick();

  const std::function<void(const std::string&)> output_;
  const std::function<int()> columns_;
  const bool ticks_;
  std::mutex mutex_;  // guards the members below and calls of output_
  Content content_;
  Clock::time_point shown_at_;  // when Show was called with content_
  bool drawn_ = false;          // the bar is on the terminal's last line
  bool stopped_ = false;
  std::condition_variable stop_;
  data::Thread thread_;
};

// Returns the text of the bar for a terminal of `columns` columns; it never wraps. `seconds` is the time since Show was
// called with `content`.
std::string BarLine(const ProgressBar::Content& content, double seconds, int columns);

enum class LogFormat { kBar, kTable, kJson, kPlain };

// `name` is auto, bar, table or json. auto and bar are kBar on a terminal, kPlain elsewhere.
LogFormat ParseLogFormat(const std::string& name, bool is_terminal);

struct Terminal {
  bool is_terminal = false;
  int columns = 80;
};
Terminal StdoutTerminal();

// 1281167 → "1,281,167"
std::string Grouped(int64_t number);

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
