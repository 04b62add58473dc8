#include "trainer/report/metrics_log.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/checkpoint/durable_file.h"

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

}  // namespace

MetricsLog::MetricsLog(std::filesystem::path path) : path_(std::move(path)) { file_.emplace(path_); }

void MetricsLog::Resume(int64_t step, double epochs_done) {
  const std::string content = checkpoint::ReadTextFile(path_, kMaxBytes);
  std::string kept;
  size_t begin = 0;
  for (size_t end; (end = content.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = content.substr(begin, end - begin);
    if (HappenedBy(step, epochs_done, line)) kept += line + "\n";
  }
  if (kept != content) Replace(kept);
}

void MetricsLog::Clear() { Replace(""); }

void MetricsLog::Replace(const std::string& content) {
  checkpoint::WriteAtomically(path_, content);
  file_.emplace(path_);  // opens the new file in place of the old one
}

}  // namespace dtrain::report
