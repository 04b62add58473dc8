#include "trainer/report/metrics_file.h"

#include <chrono>
#include <exception>
#include <utility>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/report/log.h"
#include "trainer/report/run_metrics.h"

namespace dtrain::report {

MetricsFile::MetricsFile(std::filesystem::path path, std::shared_ptr<const RunMetrics> metrics, double interval_seconds)
    : path_(std::move(path)), metrics_(std::move(metrics)) {
  Write();
  thread_ = std::jthread([this, interval_seconds](const std::stop_token& stop) { Run(stop, interval_seconds); });
}

MetricsFile::~MetricsFile() {
  thread_.request_stop();
  thread_.join();
  TryToWrite();
}

void MetricsFile::Write() const { checkpoint::WriteAtomically(path_, metrics_->Text()); }

void MetricsFile::TryToWrite() {
  try {
    Write();
  } catch (const std::exception& error) {  // a failure must not end the run
    if (!std::exchange(warned_, true))
      LogWarning(std::string("--metrics_file cannot be written; the run continues without it: ") + error.what());
  }
}

void MetricsFile::Run(const std::stop_token& stop, double interval_seconds) {
  const std::chrono::duration<double> interval(interval_seconds);
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, stop, interval, [&stop] { return stop.stop_requested(); })) TryToWrite();
}

}  // namespace dtrain::report
