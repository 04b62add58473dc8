#include "trainer/report/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>

#include "data/shown.h"
#include "trainer/report/log.h"

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

std::string SpeedText(double speed, SpeedUnit unit) {
  return Format(speed < 10    ? "%.2f"
                : speed < 100 ? "%.1f"
                              : "%.0f",
                speed) +
         (unit == SpeedUnit::kImages ? " img/s" : " tok/s");
}

// " top1 87.50 top5 93.10"
std::string MetricsText(const Metrics& metrics) {
  std::string text;
  for (const Metric& metric : metrics) text += Format(" %s %.*f", metric.name.c_str(), metric.decimals, metric.value);
  return text;
}

// "loss 0.4321 top1 87.50"
std::string LossText(const TrainPoint& point) {
  std::string text = Format("loss %.4f", point.loss);
  if (point.text && point.text->has_perplexity) text += Format(" ppl %.4g", std::exp(point.loss));
  return text + MetricsText(point.metrics);
}

std::string TimeOfDay() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return Format("%02d:%02d:%02d", local.tm_hour, local.tm_min, local.tm_sec);
}

std::string BadRecordsText(int64_t count) {
  return count > 0 ? Format(" bad records %lld", static_cast<long long>(count)) : "";
}

// " on 320 of 10,000 samples" of a limited evaluation
std::string LimitText(const ValPoint& point) {
  if (!point.is_limited()) return "";
  return " on " + Grouped(point.samples) + " of " + Grouped(point.samples_of_split) + " samples";
}

std::string ValidationLine(const ValPoint& point) {
  return "validation" + (point.split.empty() ? "" : " on " + Shown(point.split)) +
         Format(" step %lld epoch %.2f", static_cast<long long>(point.step), point.epoch) + MetricsText(point.metrics) +
         LimitText(point) + BadRecordsText(point.bad_records);
}

std::string BestLine(const ValPoint& best) {
  const Metric& metric = best.decisive();
  return Format("best %s %.*f%s at step %lld (model_best.safetensors)", metric.name.c_str(), metric.decimals,
                metric.value, LimitText(best).c_str(), static_cast<long long>(best.step));
}

// The table has the columns of the AWS ImageNet script, because users have scripts that parse these.
std::string TableRow(const TrainPoint& point) {
  return Format("%6lld %5.1f %7.1f %6.3f %6.3f %7.5f", static_cast<long long>(point.step), point.epoch, point.speed,
                point.loss, point.final_loss.value_or(point.loss), point.lr);
}

std::string TableValidation(const ValPoint& point) {
  constexpr int kMinWidth = 6;
  std::string headings = "  step  epoch";
  std::string row = Format("%6lld  %5.1f", static_cast<long long>(point.step), point.epoch);
  for (const Metric& metric : point.metrics) {
    const bool has_heading = !metric.table_heading.empty();
    const int width = has_heading ? kMinWidth : std::max(kMinWidth, static_cast<int>(metric.name.size()));
    headings += has_heading ? metric.table_heading : Format("  %*s", width, metric.name.c_str());
    row += Format("  %*.*f", width, has_heading ? metric.table_decimals : metric.decimals, metric.value);
  }
  return headings + "\n" + row + (point.is_limited() ? "\n " + LimitText(point) : "");
}

}  // namespace

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "-";
  const auto whole = static_cast<long long>(std::llround(seconds));
  return Format("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string BarLine(const ProgressBar::Content& content, double seconds, int columns) {
  const auto room = static_cast<size_t>(std::max(1, columns - 1));  // a full last column would wrap
  const double share = std::clamp(
      static_cast<double>(content.done) / static_cast<double>(std::max<int64_t>(1, content.total)), 0.0, 1.0);
  std::vector<ProgressBar::Fact> facts = content.facts;
  const std::string count = std::to_string(content.done) + "/" + std::to_string(content.total);
  facts.insert(facts.begin(), {{Format("%3.0f%%", std::floor(share * 100)), 0}, {count, 1}});
  if (content.remaining_seconds) {
    facts.push_back({"eta " + FormatDuration(std::max(0.0, *content.remaining_seconds - seconds)), 1});
  }
  while (facts.size() > 1) {
    const auto least = std::ranges::max_element(facts, {}, &ProgressBar::Fact::rank);
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
  output_(kEraseLine + BarLine(content_, SecondsSince(shown_at_), columns_()));
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

std::string Grouped(int64_t number) {
  std::string text = std::to_string(number);
  const size_t first = text[0] == '-' ? 1 : 0;
  for (size_t i = text.size(); i > first + 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

LogFormat ParseLogFormat(const std::string& name, bool is_terminal) {
  if (name == "table") return LogFormat::kTable;
  if (name == "json") return LogFormat::kJson;
  return is_terminal ? LogFormat::kBar : LogFormat::kPlain;
}

Terminal StdoutTerminal() {
  Terminal terminal;
  // Open MPI gives its ranks a pseudo-terminal even if mpirun's own output goes into a file.
  terminal.is_terminal = ::isatty(STDOUT_FILENO) == 1 && std::getenv("OMPI_COMM_WORLD_RANK") == nullptr;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) terminal.columns = size.ws_col;
  return terminal;
}

Console::Console(Options options, Output output) : options_(std::move(options)), output_(std::move(output)) {
  const bool owns_terminal = !output_;
  if (owns_terminal) {
    output_ = [](const std::string& text) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    };
  }
  if (!options_.clock) options_.clock = &TimeOfDay;
  if (options_.format != LogFormat::kBar || options_.rank != 0) return;
  const auto columns = [this, owns_terminal] { return owns_terminal ? StdoutTerminal().columns : options_.columns; };
  bar_ = std::make_unique<ProgressBar>(output_, columns, /*ticks=*/owns_terminal);
  if (owns_terminal) SetAroundLogLines([bar = bar_.get()](const auto& write) { bar->Around(write); });
}

Console::~Console() {
  if (bar_) SetAroundLogLines(nullptr);
}

void Console::Line(const std::string& text) {
  if (options_.rank != 0) return;
  if (bar_) return bar_->Above(text);
  output_(text + "\n");
}

void Console::Event(const std::string& text) {
  Line(options_.format == LogFormat::kPlain ? options_.clock() + " " + text : text);
}

double Console::RemainingSeconds(int64_t step) const {
  if (options_.total_steps <= 0 || !(step_seconds_ > 0)) return std::numeric_limits<double>::quiet_NaN();
  return step_seconds_ * static_cast<double>(std::max<int64_t>(0, options_.total_steps - step));
}

void Console::Train(const TrainPoint& point) {
  if (options_.rank != 0) return;
  if (!bar_) step_seconds_ = point.step_seconds;
  switch (options_.format) {
    case LogFormat::kBar:
      if (!(step_seconds_ > 0)) step_seconds_ = point.step_seconds;
      last_point_ = point;
      point_is_of_epoch_ = true;
      return ShowTraining(point.step, point.epoch);
    case LogFormat::kTable:
      if (!std::exchange(table_header_, true)) Line("  Step Epoch Speed   Loss  FinLoss   LR");
      return Line(TableRow(point));
    case LogFormat::kJson:
      return Line(point.text ? FairseqLine(point) : JsonLine(point));
    case LogFormat::kPlain:
      return Event(Format("step %lld/%lld epoch %.2f ", static_cast<long long>(point.step),
                          static_cast<long long>(options_.total_steps), point.epoch) +
                   LossText(point) + Format(" lr %.4g ", point.lr) + SpeedText(point.speed, point.speed_unit) +
                   " eta " + FormatDuration(RemainingSeconds(point.step)) + BadRecordsText(point.bad_records));
  }
}

// The bar uses a running mean, because the time of a step changes slowly and a single step may have waited.
void Console::Step(int64_t step, double epoch) {
  if (!bar_) return;
  constexpr double kNewest = 0.1;
  if (last_step_) {
    const double seconds = SecondsSince(*last_step_);
    step_seconds_ = step_seconds_ > 0 ? (1 - kNewest) * step_seconds_ + kNewest * seconds : seconds;
  }
  last_step_ = Clock::now();
  ShowTraining(step, epoch);
}

void Console::ShowTraining(int64_t step, double epoch) {
  ProgressBar::Content content{.label = Format("epoch %.2f", epoch), .done = step, .total = options_.total_steps};
  if (last_point_) {
    const TrainPoint& point = *last_point_;
    content.facts = {{SpeedText(point.speed, point.speed_unit), 3},
                     {LossText(point), 2},
                     {Format("lr %.4g", point.lr), 5},
                     {Format("data %.0f%%", 100 * point.data_seconds / std::max(point.step_seconds, 1e-9)), 4}};
  }
  if (const double seconds = RemainingSeconds(step); std::isfinite(seconds)) content.remaining_seconds = seconds;
  last_shown_ = {step, epoch};
  bar_->Show(std::move(content));
}

void Console::Evaluating(int64_t done, int64_t total) {
  if (!bar_) return;
  last_step_.reset();  // so that the next step's time does not include the evaluation
  if (done == 1 || !evaluation_start_) evaluation_start_ = Clock::now();
  ProgressBar::Content content{.label = "evaluating", .done = done, .total = total};
  if (done > 1) {
    content.remaining_seconds =
        SecondsSince(*evaluation_start_) / static_cast<double>(done - 1) * static_cast<double>(total - done);
  }
  bar_->Show(std::move(content));
}

void Console::Validation(const ValPoint& point) {
  if (bar_) ShowTraining(last_shown_.first, last_shown_.second);
  if (options_.format != LogFormat::kJson) return Event(ValidationLine(point));
  Line(point.text ? FairseqLine(point) : JsonLine(point));
}

// With a bar the line of an epoch shows the training loss, because no other line remains on the terminal.
void Console::Epoch(const EpochPoint& point) {
  if (options_.format == LogFormat::kJson) return Line(JsonLine(point));
  std::string line = Format("epoch %lld took %.1f s", static_cast<long long>(point.epoch), point.epoch_seconds);
  if (std::exchange(point_is_of_epoch_, false)) {
    line += Format(", at step %lld: ", static_cast<long long>(last_point_->step)) + LossText(*last_point_);
  }
  Event(line);
}

void Console::Note(const std::string& text) {
  if (options_.format != LogFormat::kJson) Line(Shown(text));
}

void Console::Finish(const RunResult& result) {
  if (options_.rank != 0) return;
  if (bar_) bar_->End();
  if (options_.format == LogFormat::kTable) {
    if (result.validation) Line(TableValidation(*result.validation));
    Line(Format("Finished in %.3f", result.seconds));
  }
  if (options_.format == LogFormat::kJson) return Line(JsonLine(result));
  if (!result.stopped_early.empty()) Line("stopped early: " + result.stopped_early);
  if (result.best) Line(BestLine(*result.best));
  Line(FinalLine(result));
}

}  // namespace dtrain::report
