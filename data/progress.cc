#include "data/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "data/shown.h"

namespace dtrain::data {

Progress::Progress(const std::string& what, std::string unit, int64_t total)
    : what_(Shown(what)), unit_(std::move(unit)), total_(total), is_terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  Draw();
  if (is_terminal_) std::fputc('\n', stderr);
}

void Progress::Add(int64_t count, int64_t bytes) {
  done_ += count;
  bytes_ += bytes;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  const auto now = std::chrono::steady_clock::now();
  if (!lock || now - last_drawn_ < std::chrono::milliseconds(is_terminal_ ? 200 : 10'000)) return;
  last_drawn_ = now;
  Draw();
}

double Progress::seconds() const {
  return std::max(1e-9, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count());
}

void Progress::Draw() const {
  const double elapsed = seconds();
  char speed[32] = "";
  if (bytes_ > 0) std::snprintf(speed, sizeof speed, ", %.3f GB/s", 1e-9 * static_cast<double>(bytes_) / elapsed);
  std::fprintf(stderr, "%s%s: %lld of %lld %s, %.0f/s%s, %.0f s%s", is_terminal_ ? "\r" : "", what_.c_str(),
               static_cast<long long>(done_), static_cast<long long>(total_), unit_.c_str(),
               static_cast<double>(done_) / elapsed, speed, elapsed, is_terminal_ ? "   " : "\n");
  std::fflush(stderr);
}

}  // namespace dtrain::data
