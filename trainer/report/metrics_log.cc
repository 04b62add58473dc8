#include "trainer/report/metrics_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/careful_open.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/errors.h"

namespace dtrain::report {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{4} << 30;
constexpr double kEpochTolerance = 1e-9;  // of a sum of fractions that should be a whole number

// Whether a line tells of something that happened by then. One that is not whole does not.
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

MetricsLog::MetricsLog(std::filesystem::path path) : path_(std::move(path)) { Open(); }

MetricsLog::~MetricsLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MetricsLog::Open() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = data::OpenOrCreate(path_, O_WRONLY | O_APPEND);
  if (descriptor_ < 0) checkpoint::ThrowSystemError("open", path_, errno);
}

void MetricsLog::AppendLine(const std::string& line) {
  const std::string text = line + "\n";
  ssize_t written = 0;
  do {
    written = ::write(descriptor_, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(text.size())) return;
  const int error_number = written < 0 ? errno : ENOSPC;
  struct stat status;  // takes half a line back, so that the next one starts on its own
  if (written > 0 && ::fstat(descriptor_, &status) == 0) {
    [[maybe_unused]] const int best_effort = ::ftruncate(descriptor_, status.st_size - written);
  }
  checkpoint::ThrowSystemError("write", path_, error_number);
}

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
  Open();  // the old descriptor leads to the replaced file
}

}  // namespace dtrain::report
