// prometheus-cpp's server (CivetWeb) rather than Debian 12's cpp-httplib 0.11, which takes as many headers from a
// stranger as memory holds (CVE-2025-53628): CivetWeb refuses a request of more than max_request_size.
#include "trainer/report/metrics_endpoint.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <prometheus/exposer.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <vector>

#include "trainer/errors.h"

// CivetWeb asks for stacks of 100 KB, and LibTorch's thread-local variables, which are part of each stack, leave
// nothing of that: pthread_create refuses. Whoever asks for less than this in these programs gets this.
extern "C" int pthread_attr_setstacksize(pthread_attr_t* attributes, size_t bytes) noexcept {
  constexpr size_t kLeast = 1 << 20;
  static const auto original =
      reinterpret_cast<int (*)(pthread_attr_t*, size_t)>(dlsym(RTLD_NEXT, "pthread_attr_setstacksize"));
  return original(attributes, std::max(bytes, kLeast));
}

namespace dtrain::report {
namespace {

std::vector<std::string> ServerOptions(const std::string& where) {
  return {"listening_ports",   where, "num_threads",      "4",   "request_timeout_ms", "2000",
          "enable_keep_alive", "no",  "max_request_size", "8192"};
}

// Why nothing can listen there: the server does not say. 0 where now something can.
int ListenError(const std::string& address, int port) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, address.c_str(), &where.sin_addr) != 1) return EINVAL;
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return errno;
  const int on = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool listens =
      bind(descriptor, reinterpret_cast<sockaddr*>(&where), sizeof(where)) == 0 && listen(descriptor, 1) == 0;
  const int reason = listens ? 0 : errno;
  close(descriptor);
  return reason;
}

}  // namespace

MetricsEndpoint::MetricsEndpoint(const std::string& address, int port, std::shared_ptr<prometheus::Collectable> metrics)
    : metrics_(std::move(metrics)) {
  const std::string where = address + ":" + std::to_string(port);
  try {
    server_ = std::make_unique<prometheus::Exposer>(ServerOptions(where));
  } catch (const std::exception&) {
    const int reason = ListenError(address, port);
    throw UsageError("--metrics_port: rank 0 cannot listen on " + where + ": " +
                         (reason == 0 ? "its threads could not be started" : std::strerror(reason)),
                     reason == EADDRINUSE      ? "another run may have it: choose another --metrics_port"
                     : reason == EADDRNOTAVAIL ? "--metrics_address must be one of this machine's, or 0.0.0.0 for all"
                                               : "choose another --metrics_port or --metrics_address, or leave it out");
  }
  server_->RegisterCollectable(metrics_);
}

MetricsEndpoint::~MetricsEndpoint() = default;

int MetricsEndpoint::port() const { return server_->GetListeningPorts().front(); }

}  // namespace dtrain::report
