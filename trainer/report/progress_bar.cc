#include "trainer/report/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace dtrain::report {
namespace {

constexpr int kMinBarWidth = 6;
constexpr int kAroundBar = 3;     // the length of " [" and "]"
constexpr int kLessThanABar = 5;  // facts of this or a higher rank are left out to make room for the bar
constexpr int kMaxBarWidth = 30;
constexpr char kEraseLine[] = "\r\x1b[K";
constexpr auto kTick = std::chrono::seconds(1);

std::string Joined(const std::vector<ProgressBar::Fact>& facts) {
  std::string text;
  for (const ProgressBar::Fact& fact : facts) text += " " + fact.text;
  return text;
}

}  // namespace

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "-";
  const auto whole = static_cast<long long>(std::llround(seconds));
  char text[32];
  std::snprintf(text, sizeof(text), "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  return text;
}

std::string BarLine(const ProgressBar::Content& content, double seconds, int columns) {
  const auto room = static_cast<size_t>(std::max(1, columns - 1));  // a full last column would wrap
  const double share = std::clamp(
      static_cast<double>(content.done) / static_cast<double>(std::max<int64_t>(1, content.total)), 0.0, 1.0);
  char percent[16];
  std::snprintf(percent, sizeof(percent), "%3.0f%%", std::floor(share * 100));
  std::vector<ProgressBar::Fact> facts = content.facts;
  const std::string count = std::to_string(content.done) + "/" + std::to_string(content.total);
  facts.insert(facts.begin(), {{percent, 0}, {count, 1}});
  if (content.remaining_seconds) {
    facts.push_back({"eta " + FormatDuration(std::max(0.0, *content.remaining_seconds - seconds)), 1});
  }
  while (facts.size() > 1) {
    const auto least =
        std::max_element(facts.begin(), facts.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    const size_t for_bar = least->rank >= kLessThanABar ? kMinBarWidth + kAroundBar : 0;
    if (content.label.size() + Joined(facts).size() + for_bar <= room) break;
    facts.erase(least);
  }
  const std::string right = Joined(facts);
  std::string line = content.label;
  const int width =
      std::min(kMaxBarWidth, static_cast<int>(room) - static_cast<int>(line.size() + right.size()) - kAroundBar);
  if (width >= kMinBarWidth) {
    const auto filled = static_cast<size_t>(share * width);
    line += " [" + std::string(filled, '#') + std::string(static_cast<size_t>(width) - filled, '.') + "]";
  }
  return (line + right).substr(0, room);
}

ProgressBar::ProgressBar(std::function<void(const std::string&)> output, std::function<int()> columns, bool ticks)
    : output_(std::move(output)), columns_(std::move(columns)), ticks_(ticks) {
  if (ticks_) thread_ = data::Thread([this] { Tick(); });
}

ProgressBar::~ProgressBar() {
  End();
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProgressBar::Tick() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, kTick, [this] { return stopped_; })) {
    if (drawn_) Draw();
  }
}

void ProgressBar::Draw() {
  const double seconds = std::chrono::duration<double>(Clock::now() - shown_at_).count();
  output_(kEraseLine + BarLine(content_, seconds, columns_()));
  drawn_ = true;
}

void ProgressBar::Show(Content content) {
  const std::lock_guard lock(mutex_);
  const bool is_news = content.total != content_.total;  // another activity, which is drawn at once
  content_ = std::move(content);
  shown_at_ = Clock::now();
  if (!ticks_ || !drawn_ || is_news) Draw();
}

void ProgressBar::Above(const std::string& text) {
  Around([&] { output_(text + "\n"); });
}

void ProgressBar::Around(const std::function<void()>& write) {
  const std::lock_guard lock(mutex_);
  if (drawn_) output_(kEraseLine);
  write();
  if (drawn_) Draw();
}

void ProgressBar::End() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(drawn_, false)) output_("\n");
}

}  // namespace dtrain::report
