#include "trainer/report/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <limits>
#include <utility>

#include "data/shown.h"
#include "trainer/errors.h"
#include "trainer/report/fairseq_line.h"

namespace dtrain::report {
namespace {

constexpr int kMinBarWidth = 6;
constexpr int kMaxBarWidth = 30;
constexpr char kEraseLine[] = "\r\x1b[K";

[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

// 1281167 → "1,281,167"
std::string Grouped(int64_t number) {
  std::string text = std::to_string(number);
  const size_t first = text[0] == '-' ? 1 : 0;
  for (size_t i = text.size(); i > first + 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string SpeedText(double speed, SpeedUnit unit) {
  return Format(speed < 10    ? "%.2f"
                : speed < 100 ? "%.1f"
                              : "%.0f",
                speed) +
         (unit == SpeedUnit::kImages ? " img/s" : " tok/s");
}

std::string BadRecordsText(int64_t count) {
  return count > 0 ? Format(" bad records %lld", static_cast<long long>(count)) : "";
}

std::string ValidationLine(const ValPoint& point) {
  std::string line = Format("validation step %lld epoch %.2f", static_cast<long long>(point.step), point.epoch);
  for (const Metric& metric : point.metrics) {
    line += Format(" %s %.*f", metric.name.c_str(), metric.decimals, metric.value);
  }
  return line + BadRecordsText(point.bad_records);
}

std::string BestLine(const ValPoint& best) {
  const Metric& metric = best.metrics.front();
  return Format("best %s %.*f at step %lld (model_best.safetensors)", metric.name.c_str(), metric.decimals,
                metric.value, static_cast<long long>(best.step));
}

// The layouts of the table are those of the AWS ImageNet script, which people's plots parse.
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
  return headings + "\n" + row;
}

}  // namespace

LogFormat ParseLogFormat(const std::string& name, bool is_terminal) {
  if (name == "auto") return is_terminal ? LogFormat::kBar : LogFormat::kPlain;
  if (name == "bar") return is_terminal ? LogFormat::kBar : LogFormat::kPlain;
  if (name == "table") return LogFormat::kTable;
  if (name == "json") return LogFormat::kJson;
  throw UsageError("--log_format=" + name + " is unknown", "one of auto, bar, table, json");
}

Terminal StdoutTerminal() {
  Terminal terminal;
  terminal.is_terminal = ::isatty(STDOUT_FILENO) == 1;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) terminal.columns = size.ws_col;
  return terminal;
}

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "-";
  const auto whole = static_cast<long long>(std::llround(seconds));
  return Format("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
}

Console::Console(Options options, Output output) : options_(options), output_(std::move(output)) {
  if (output_) return;
  output_ = [](const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
}

Console::~Console() {
  if (bar_drawn_) output_("\n");
}

void Console::Line(const std::string& text) {
  if (options_.rank != 0) return;
  if (!bar_drawn_) return output_(text + "\n");
  output_(kEraseLine + text + "\n" + bar_);
}

double Console::RemainingSeconds(const TrainPoint& point) const {
  if (options_.total_steps <= 0 || !(point.step_seconds > 0)) return std::numeric_limits<double>::quiet_NaN();
  return point.step_seconds * static_cast<double>(std::max<int64_t>(0, options_.total_steps - point.step));
}

void Console::Start(const Banner& banner) {
  if (options_.format == LogFormat::kJson) return;
  Line("dtrain: " + banner.model + ", " + Grouped(banner.parameters) + " parameters");
  Line(Format("  device         %s, %d rank%s", Shown(banner.device).c_str(), banner.world_size,
              banner.world_size == 1 ? "" : "s"));
  if (banner.deterministic) Line("  deterministic  run: the same bits in every run on such a machine");
  Line("  samples        " + Grouped(banner.train_samples) + " training, " + Grouped(banner.val_samples) +
       " validation");
  if (!banner.classes.empty()) Line("  classes        " + Shown(banner.classes));
  Line("  global batch   " + Grouped(banner.global_batch_size));
  Line("  steps          " + Grouped(banner.total_steps) + Format(" (%g epochs)", banner.epochs));
  Line("  run directory  " + Shown(banner.run_directory));
}

void Console::Train(const TrainPoint& point) {
  if (options_.rank != 0) return;
  switch (options_.format) {
    case LogFormat::kBar:
      return DrawBar(point);
    case LogFormat::kTable:
      if (!std::exchange(table_header_, true)) Line("  Step Epoch Speed   Loss  FinLoss   LR");
      return Line(TableRow(point));
    case LogFormat::kJson:
      return Line(point.text ? FairseqLine(point) : JsonLine(point));
    case LogFormat::kPlain:
      return Line(Format("step %lld/%lld epoch %.2f loss %.4f ", static_cast<long long>(point.step),
                         static_cast<long long>(options_.total_steps), point.epoch, point.loss) +
                  (point.text ? Format("ppl %.4g ", std::exp(point.loss)) : "") + Format("lr %.4g ", point.lr) +
                  SpeedText(point.speed, point.speed_unit) + " eta " + FormatDuration(RemainingSeconds(point)) +
                  BadRecordsText(point.bad_records));
  }
}

void Console::DrawBar(const TrainPoint& point) {
  const double total = static_cast<double>(std::max<int64_t>(1, options_.total_steps));
  const double done = std::clamp(static_cast<double>(point.step) / total, 0.0, 1.0);
  const std::string left = Format("epoch %.2f ", point.epoch);
  const std::string right = Format(" %3.0f%% %lld/%lld ", std::floor(done * 100), static_cast<long long>(point.step),
                                   static_cast<long long>(options_.total_steps)) +
                            SpeedText(point.speed, point.speed_unit) +
                            Format(" loss %.4f lr %.4g eta ", point.loss, point.lr) +
                            FormatDuration(RemainingSeconds(point));
  const int columns = std::max(1, options_.columns - 1);  // a full last column would wrap
  const int width = std::min(kMaxBarWidth, columns - static_cast<int>(left.size() + right.size()) - 2);
  bar_ = left;
  if (width >= kMinBarWidth) {
    const auto filled = static_cast<size_t>(done * width);
    bar_ += "[" + std::string(filled, '#') + std::string(static_cast<size_t>(width) - filled, '.') + "]";
  }
  bar_ = (bar_ + right).substr(0, static_cast<size_t>(columns));
  output_(kEraseLine + bar_);
  bar_drawn_ = true;
}

void Console::Validation(const ValPoint& point) {
  if (options_.format != LogFormat::kJson) return Line(ValidationLine(point));
  Line(point.text ? FairseqLine(point) : JsonLine(point));
}

void Console::Epoch(const EpochPoint& point) {
  if (options_.format == LogFormat::kJson) return Line(JsonLine(point));
  Line(Format("epoch %lld took %.1f s", static_cast<long long>(point.epoch), point.epoch_seconds));
}

void Console::Note(const std::string& text) {
  if (options_.format != LogFormat::kJson) Line(Shown(text));
}

void Console::Finish(const RunResult& result) {
  if (options_.rank != 0) return;
  if (std::exchange(bar_drawn_, false)) output_("\n");
  if (options_.format == LogFormat::kTable) {
    if (result.validation) Line(TableValidation(*result.validation));
    Line(Format("Finished in %.3f", result.seconds));
  }
  if (options_.format == LogFormat::kJson) return Line(JsonLine(result));
  if (result.best) Line(BestLine(*result.best));
  Line(FinalLine(result));
}

}  // namespace dtrain::report
