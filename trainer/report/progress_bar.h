// A progress bar in the last line of a terminal. Other lines appear above it, no matter which thread writes them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/machine/thread.h"

namespace dtrain::report {

// Returns "0:03:12" or "27:46:40", and "-" for an unknown (negative, not finite or huge) duration.
std::string FormatDuration(double seconds);

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
  // Writes a line above the bar.
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

}  // namespace dtrain::report
