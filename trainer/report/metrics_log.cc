#include "trainer/report/metrics_log.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

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

constexpr uint64_t kMostTimeBytes = uint64_t{4} << 30;

constexpr std::pair<Phase, const char*> kKeys[] = {
    {Phase::kStarting, "startup_seconds"},  {Phase::kData, "data_wait_seconds"},
    {Phase::kForward, "forward_seconds"},   {Phase::kBackward, "backward_seconds"},
    {Phase::kUpdate, "update_seconds"},     {Phase::kExchange, "communication_seconds"},
    {Phase::kSaving, "checkpoint_seconds"}, {Phase::kEvaluation, "evaluation_seconds"},
    {Phase::kOther, "other_seconds"}};

// The lines of each attempt, by its number.
using Attempts = std::map<int64_t, std::vector<RunTimes>>;

Attempts Parse(const std::string& lines) {
  Attempts attempts;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    const auto number = [&json](const char* key) {
      const auto found = json.find(key);
      return found != json.end() && found->is_number() ? found->get<double>() : 0;
    };
    if (!json.is_object() || number("attempt") < 1) continue;
    RunTimes times{.step = static_cast<int64_t>(number("step"))};
    for (const auto& [part, key] : kKeys) times.parts[part] = number(key);
    attempts[static_cast<int64_t>(number("attempt"))].push_back(times);
  }
  return attempts;
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
  checkpoint::AppendFile(path_).Append(JsonLine(point) + "\n");
  char numbers[160];
  std::snprintf(numbers, sizeof(numbers),
                "the loss of step %lld, %.4g, is a spike: the mean before was %.4g, the deviation %.2g",
                static_cast<long long>(point.step), point.loss, point.mean, point.deviation);
  LogWarning(std::string(numbers) + "; its samples are listed in " + path_.string());
}

TimeSplit SplitOf(const std::string& lines) {
  TimeSplit split;
  const Attempts attempts = Parse(lines);
  split.attempts = static_cast<int64_t>(attempts.size());
  int64_t kept_step = std::numeric_limits<int64_t>::max();  // the earliest step from which a later attempt continued
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend(); ++attempt) {
    const std::vector<RunTimes>& told = attempt->second;
    TimeParts kept;
    for (const RunTimes& times : told) {
      if (times.step <= kept_step) kept = times.parts;
    }
    split.kept = split.kept + kept;
    split.lost_seconds += (told.back().parts - kept).total();
    kept_step = std::min(kept_step, told.front().step);
  }
  return split;
}

TimesLog::TimesLog(std::filesystem::path path) : path_(std::move(path)), file_(path_) {
  const Attempts earlier = Parse(checkpoint::ReadTextFile(path_, kMostTimeBytes));
  if (!earlier.empty()) attempt_ = 1 + earlier.rbegin()->first;
}

void TimesLog::Times(const RunTimes& times) {
  nlohmann::ordered_json line = {{"attempt", attempt_}, {"step", times.step}};
  for (const auto& [part, key] : kKeys) {
    if (const double seconds = times.parts[part]; seconds > 0) line[key] = seconds;
  }
  file_.Append(line.dump() + "\n");
}

TimeSplit TimesLog::Split() const { return SplitOf(checkpoint::ReadTextFile(path_, kMostTimeBytes)); }

}  // namespace dtrain::report
