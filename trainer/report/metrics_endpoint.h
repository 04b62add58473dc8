// Prometheus' door: http://ADDRESS:PORT/metrics. One thread of its own serves all who come, none of whom it waits for:
// one who says nothing or reads slowly is sent away after two seconds, and training never notices.
#pragma once

#include <memory>
#include <string>

struct MHD_Daemon;

namespace dtrain::report {

class RunMetrics;

class MetricsEndpoint {
 public:
  // `address` is an IPv4 or IPv6 address ("::" takes both kinds of visitors), `port` 0 for any that is free. Throws
  // UsageError where nothing can listen there.
  MetricsEndpoint(const std::string& address, int port, std::shared_ptr<const RunMetrics> metrics);
  ~MetricsEndpoint();
  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

  int port() const { return port_; }

 private:
  std::shared_ptr<const RunMetrics> metrics_;
  int port_ = 0;
  MHD_Daemon* server_ = nullptr;
};

// "http://127.0.0.1:9401/metrics", with brackets around an IPv6 address.
std::string MetricsUrl(const std::string& address, int port);

}  // namespace dtrain::report
