#include "trainer/launch/local_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trainer/errors.h"

namespace dtrain::launch {
namespace {

std::string Numeric(const sockaddr* address, socklen_t length) {
  char name[NI_MAXHOST] = "";
  if (getnameinfo(address, length, name, sizeof name, nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return name;
}

// Connecting a datagram socket chooses a route and sends nothing. The targets are reserved for documentation.
std::string AddressOfDefaultRoute() {
  for (const char* target : {"192.0.2.1", "2001:db8::1"}) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_DGRAM;
    hints.ai_flags = AI_NUMERICHOST;
    addrinfo* found = nullptr;
    if (getaddrinfo(target, "9", &hints, &found) != 0) continue;
    std::string address;
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    auto* generic = reinterpret_cast<sockaddr*>(&local);
    const int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0 && getsockname(fd, generic, &length) == 0) {
      address = Numeric(generic, length);
    }
    if (fd >= 0) close(fd);
    freeaddrinfo(found);
    if (!address.empty()) return address;
  }
  return "";
}

std::string AddressOfFirstInterface() {
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return "";
  std::string address;
  for (const ifaddrs* one = interfaces; one != nullptr && address.empty(); one = one->ifa_next) {
    const bool usable = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (usable && one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET) {
      address = Numeric(one->ifa_addr, sizeof(sockaddr_in));
    }
  }
  freeifaddrs(interfaces);
  return address;
}

}  // namespace

std::string OwnAddress() {
  std::string address = AddressOfDefaultRoute();
  if (address.empty()) address = AddressOfFirstInterface();
  return address.empty() ? "127.0.0.1" : address;
}

bool IsLoopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.rfind("127.", 0) == 0;
}

int ListenAnywhereOn(const std::string& address, int* port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(address.c_str(), "0", &hints, &found);
  const int fd = failure == 0 ? socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  auto* generic = reinterpret_cast<sockaddr*>(&bound);
  const bool listening = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0 &&
                         getsockname(fd, generic, &length) == 0;
  const int error = errno;
  if (found != nullptr) freeaddrinfo(found);
  if (!listening) {
    if (fd >= 0) close(fd);
    throw PeerLostError(
        "cannot open a port on " + address + ": " + (failure != 0 ? gai_strerror(failure) : std::strerror(error)),
        "is the network of this machine or container up?");
  }
  char service[NI_MAXSERV] = "0";
  getnameinfo(generic, length, nullptr, 0, service, sizeof service, NI_NUMERICSERV);
  *port = std::stoi(service);
  return fd;
}

}  // namespace dtrain::launch
