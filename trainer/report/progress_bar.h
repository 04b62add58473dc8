// The last line of a terminal: how far something is. Other lines appear above it, whoever writes them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace dtrain::report {

// "0:03:12", "27:46:40"; "-" where it is unknown.
std::string FormatDuration(double seconds);

class ProgressBar {
 public:
  struct Fact {
    std::string text;
    int rank = 0;  // where there is no room for all, those of the highest rank go first, from 5 on before the bar
  };
  struct Content {
    std::string label;  // what is under way
    int64_t done = 0;
    int64_t total = 0;
    std::vector<Fact> facts = {};
    std::optional<double> remaining_seconds = {};  // from now on
  };

  // `output` gets text as it is to appear. `columns` of the terminal, asked whenever the bar is drawn. With `ticks` a
  // thread of its own draws it anew every second; otherwise Show draws it.
  ProgressBar(std::function<void(const std::string&)> output, std::function<int()> columns, bool ticks);
  // Ends the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // What is shown from now on, within a second.
  void Show(Content content);
  // A line of its own above the bar.
  void Above(const std::string& text);
  // The same for a line that `write` writes to the terminal itself. From any thread.
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
  std::mutex mutex_;
  Content content_;
  Clock::time_point shown_at_;  // when content_ came
  bool drawn_ = false;
  bool stopped_ = false;
  std::condition_variable stop_;
  std::thread thread_;
};

// The line for a terminal of so many columns: it never wraps. `seconds` have passed since the content came.
std::string BarLine(const ProgressBar::Content& content, double seconds, int columns);

}  // namespace dtrain::report
