// Shows the progress of a long pass on stderr: one line that is redrawn on a terminal, else a new line every ten
// seconds.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace dtrain::data {

class Progress {
 public:
  // `total` counts `unit`s, such as "records".
  Progress(const std::string& what, std::string unit, int64_t total);
  // Draws the final state and ends the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Adds to the work that is done; 0 bytes if they are not known. Safe to call from many threads.
  void Add(int64_t count, int64_t bytes);

  double seconds() const;  // since construction, above 0
  int64_t bytes() const { return bytes_; }

 private:
  void Draw() const;

  const std::string what_, unit_;
  const int64_t total_;
  const bool is_terminal_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<int64_t> done_{0}, bytes_{0};
  std::mutex mutex_;
  std::chrono::steady_clock::time_point last_drawn_ = begin_;  // guarded by mutex_
};

}  // namespace dtrain::data
