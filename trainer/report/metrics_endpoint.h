// Prometheus' door: http://ADDRESS:PORT/metrics. Whoever comes is served by threads of the endpoint's own, so that one
// who says nothing, reads slowly or sends rubbish keeps other visitors waiting for two seconds at most, and training
// never.
#pragma once

#include <memory>
#include <string>

namespace prometheus {
class Collectable;
class Exposer;
}  // namespace prometheus

namespace dtrain::report {

class MetricsEndpoint {
 public:
  // `address` is an IPv4 address (Debian's CivetWeb knows no others), `port` 0 for any that is free. Throws UsageError
  // where nothing can listen there.
  MetricsEndpoint(const std::string& address, int port, std::shared_ptr<prometheus::Collectable> metrics);
  ~MetricsEndpoint();
  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

  int port() const;

 private:
  std::shared_ptr<prometheus::Collectable> metrics_;  // the server does not keep it
  std::unique_ptr<prometheus::Exposer> server_;
};

}  // namespace dtrain::report
