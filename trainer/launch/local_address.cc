#include "trainer/launch/local_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trainer/errors.h"

namespace dtrain::launch {
namespace {

// The targets are reserved for documentation.
std::string AddressOfDefaultRoute() {
  for (const char* target : {"192.0.2.1", "2001:db8::1"}) {
    std::string unused;
    const Addresses found = Resolve(target, /*port=*/9, SOCK_DGRAM, &unused);
    std::string address = found ? LocalAddressTowards(*found, &unused) : "";
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

Addresses Resolve(const std::string& host, int port, int type, std::string* reason) {
  addrinfo hints{};
  hints.ai_socktype = type;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure != 0) *reason = gai_strerror(failure);
  return {failure == 0 ? found : nullptr, &freeaddrinfo};
}

std::string Numeric(const sockaddr* address, socklen_t length) {
  char name[NI_MAXHOST] = "";
  if (getnameinfo(address, length, name, sizeof name, nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return name;
}

std::string LocalAddressTowards(const addrinfo& there, std::string* reason) {
  std::string address;
  const int descriptor = socket(there.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  auto* generic = reinterpret_cast<sockaddr*>(&local);
  if (descriptor >= 0 && connect(descriptor, there.ai_addr, there.ai_addrlen) == 0 &&
      getsockname(descriptor, generic, &length) == 0) {
    address = Numeric(generic, length);
  } else {
    *reason = std::strerror(errno);
  }
  if (descriptor >= 0) close(descriptor);
  return address;
}

int TryToListen(const std::string& address, int port, std::string* reason) {
  const Addresses found = Resolve(address, port, SOCK_STREAM, reason);
  const int descriptor = found ? socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
  const int yes = 1;
  if (descriptor >= 0 && setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
      bind(descriptor, found->ai_addr, found->ai_addrlen) == 0 && listen(descriptor, SOMAXCONN) == 0) {
    return descriptor;
  }
  if (found) *reason = std::strerror(errno);
  if (descriptor >= 0) close(descriptor);
  return -1;
}

int ListenOn(const std::string& address, int port) {
  std::string reason;
  const int descriptor = TryToListen(address, port, &reason);
  if (descriptor >= 0) return descriptor;
  if (port == 0) {
    throw PeerLostError("cannot open a port on " + address + ": " + reason,
                        "is the network of this machine or container up?");
  }
  throw UsageError("rank 0 cannot listen on " + address + ":" + std::to_string(port) + ": " + reason,
                   "choose a free --master_port, and a --master_addr that belongs to rank 0's machine");
}

int PortOf(int listening_descriptor) {
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  getsockname(listening_descriptor, reinterpret_cast<sockaddr*>(&local), &length);
  char port[NI_MAXSERV] = "0";
  getnameinfo(reinterpret_cast<sockaddr*>(&local), length, nullptr, 0, port, sizeof port, NI_NUMERICSERV);
  return std::stoi(port);
}

}  // namespace dtrain::launch
