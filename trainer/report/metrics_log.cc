#include "trainer/report/metrics_log.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

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

// Leaves in the file the lines for which `is_kept` holds, and returns them.
template <typename IsKept>
std::string KeepLines(const std::filesystem::path& path, const IsKept& is_kept) {
  const std::string content = checkpoint::ReadTextFile(path, kMaxBytes);
  std::string kept;
  size_t begin = 0;
  for (size_t end; (end = content.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = content.substr(begin, end - begin);
    if (is_kept(line)) kept += line + "\n";
  }
  if (kept != content) checkpoint::WriteAtomically(path, kept);
  return kept;
}

// Leaves the lines that report something that happened by then.
std::string CutBack(const std::filesystem::path& path, int64_t step, double epochs_done) {
  return KeepLines(path, [&](const std::string& line) { return HappenedBy(step, epochs_done, line); });
}

// In the order of the keys in a line.
constexpr Phase kTimed[] = {Phase::kStarting, Phase::kData,   Phase::kForward,    Phase::kBackward, Phase::kUpdate,
                            Phase::kExchange, Phase::kSaving, Phase::kEvaluation, Phase::kOther};

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
    for (const Phase part : kTimed) times.parts[part] = number(SecondsKey(part));
    attempts[static_cast<int64_t>(number("attempt"))].push_back(times);
  }
  return attempts;
}

}  // namespace

MetricsLog::MetricsLog(std::filesystem::path path) : path_(std::move(path)) { file_.emplace(path_); }

void MetricsLog::Resume(int64_t step, double epochs_done) {
  CutBack(path_, step, epochs_done);
  file_.emplace(path_);  // opens a new file in place of the old one
  restored_step_ = step;
}

void MetricsLog::Validation(const ValPoint& point) {
  if (std::exchange(restored_step_, -1) == point.step) {
    KeepLines(path_, [&point](const std::string& line) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      return json.value("kind", nlohmann::json()) != "val" || json.value("step", nlohmann::json()) != point.step;
    });
    file_.emplace(path_);
  }
  AppendLine(JsonLine(point));
}

void MetricsLog::Clear() {
  checkpoint::WriteAtomically(path_, "");
  file_.emplace(path_);
}

void SpikeLog::Resume(int64_t step, double epochs_done) {
  if (!std::filesystem::exists(path_)) return;
  const std::string kept = CutBack(path_, step, epochs_done);
  lines_ = std::ranges::count(kept, '\n');
}

void SpikeLog::Spike(const SpikePoint& point) {
  if (lines_ == kMostLines) return;
  ++lines_;
  checkpoint::AppendFile(path_).Append(JsonLine(point) + "\n");
  LogWarning(Format("the loss of step %lld, %.4g, is a spike: the mean before was %.4g, the deviation %.2g",
                    static_cast<long long>(point.step), point.loss, point.mean, point.deviation) +
             "; its samples are listed in " + path_.string());
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
  const Attempts earlier = Parse(checkpoint::ReadTextFile(path_, kMaxBytes));
  if (!earlier.empty()) attempt_ = 1 + earlier.rbegin()->first;
}

void TimesLog::Times(const RunTimes& times) {
  nlohmann::ordered_json line = {{"attempt", attempt_}, {"step", times.step}};
  for (const Phase part : kTimed) {
    if (const double seconds = times.parts[part]; seconds > 0) line[SecondsKey(part)] = seconds;
  }
  file_.Append(line.dump() + "\n");
}

TimeSplit TimesLog::Split() const { return SplitOf(checkpoint::ReadTextFile(path_, kMaxBytes)); }

}  // namespace dtrain::report
