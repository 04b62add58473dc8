// Serves a run's metrics to Prometheus at http://ADDRESS:PORT/metrics, and at /healthz whether its ranks go on, to
// Kubernetes. One thread of its own serves all connections without blocking, so training is never delayed. It closes a
// connection that is idle for two seconds, and the oldest one if there are too many, so clients that send a byte now
// and then keep nobody out.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "data/machine/thread.h"

struct MHD_Daemon;

namespace dtrain::report {

class RunMetrics;

struct Health {
  bool alive;
  std::string text;  // one line, for people
};

class MetricsEndpoint {
 public:
  // What is served. What is null is not found.
  struct Pages {
    std::shared_ptr<const RunMetrics> metrics;
    std::function<Health()> health;  // called on the server's thread; status 503 if it is not alive
  };
  // `address` is an IPv4 or IPv6 address ("::" accepts both kinds of connections). With `port` 0 the system chooses a
  // free one. Throws UsageError if it cannot listen there.
  MetricsEndpoint(const std::string& address, int port, Pages pages);
  ~MetricsEndpoint();
  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

  int port() const { return port_; }

 private:
  Pages pages_;
  int port_ = 0;
  std::deque<int> visitors_;  // sockets of the open connections, the oldest first; only the server's thread uses it
  MHD_Daemon* server_ = nullptr;
};

// Returns "http://127.0.0.1:9401/metrics", with brackets around an IPv6 address.
std::string MetricsUrl(const std::string& address, int port);

// Writes the metrics to a file for node-exporter's textfile collector, for machines that accept no connections. A
// thread of its own writes the file, so that a slow disk delays no step. The file is replaced atomically, so that a
// reader never sees half of it.
class MetricsFile {
 public:
  // Writes the file for the first time; throws StorageError if it cannot. Later failures are logged as one warning.
  MetricsFile(std::filesystem::path path, std::shared_ptr<const RunMetrics> metrics, double interval_seconds = 10);
  // Writes the file for the last time.
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

 private:
  void Write() const;
  void TryToWrite();
  void Run(const std::stop_token& stop, double interval_seconds);

  const std::filesystem::path path_;
  const std::shared_ptr<const RunMetrics> metrics_;
  bool warned_ = false;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  data::Thread thread_;  // declared last, because it uses everything above
};

}  // namespace dtrain::report
