#include "trainer/report/metrics_log.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/report/log.h"

namespace dtrain::report {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{4} << 30;
constexpr double kEpochTolerance = 1e-9;  // for a sum of fractions that should be a whole number

// Whether a line reports something that happened by then. False for an incomplete line.
bool HappenedBy(int64_t step, double epochs_done, const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return false;
  if (const auto it = json.find("step"); it != json.end() && it->is_number()) return it->get<int64_t>() <= step;
  if (const auto it = json.find("epoch"); it != json.end() && it->is_number()) {
    return it->get<double>() <= epochs_done + kEpochTolerance;
  }
  return false;
}

// Returns the lines of `content` that report something that happened by then.
std::string LinesBy(int64_t step, double epochs_done, const std::string& content) {
  std::string kept;
  size_t begin = 0;
  for (size_t end; (end = content.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = content.substr(begin, end - begin);
    if (HappenedBy(step, epochs_done, line)) kept += line + "\n";
  }
  return kept;
}

}  // namespace

MetricsLog::MetricsLog(std::filesystem::path path) : path_(std::move(path)) { file_.emplace(path_); }

void MetricsLog::Resume(int64_t step, double epochs_done) {
  const std::string content = checkpoint::ReadTextFile(path_, kMaxBytes);
  const std::string kept = LinesBy(step, epochs_done, content);
  if (kept != content) Replace(kept);
}

void MetricsLog::Clear() { Replace(""); }

void MetricsLog::Replace(const std::string& content) {
  checkpoint::WriteAtomically(path_, content);
  file_.emplace(path_);  // opens the new file in place of the old one
}

void SpikeLog::Resume(int64_t step, double epochs_done) {
  if (!std::filesystem::exists(path_)) return;
  const std::string content = checkpoint::ReadTextFile(path_, kMaxBytes);
  const std::string kept = LinesBy(step, epochs_done, content);
  if (kept != content) checkpoint::WriteAtomically(path_, kept);
  lines_ = std::count(kept.begin(), kept.end(), '\n');
}

void SpikeLog::Spike(const SpikePoint& point) {
  if (lines_ == kMostLines) return;
  ++lines_;
  AppendFile(path_).Append(JsonLine(point) + "\n");
  char numbers[160];
  std::snprintf(numbers, sizeof(numbers),
                "the loss of step %lld, %.4g, is a spike: the mean before was %.4g, the deviation %.2g",
                static_cast<long long>(point.step), point.loss, point.mean, point.deviation);
  LogWarning(std::string(numbers) + "; its samples are listed in " + path_.string());
}

}  // namespace dtrain::report
