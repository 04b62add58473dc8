// Addresses and ports: those of this machine, and the way to other machines.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <memory>
#include <string>

namespace dtrain::launch {

// Returns the numeric address at which other machines reach this one: that of the interface of the default route, or of
// the first interface that is up, or 127.0.0.1. Sends no packet.
std::string OwnAddress();

// Whether only processes of this machine reach `address`.
bool IsLoopback(const std::string& address);

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Returns the addresses of a name for sockets of `type`. Null, and the resolver's error in `*reason`, if there is none.
Addresses Resolve(const std::string& host, int port, int type, std::string* reason);

// Returns the address without its port; empty if it is none of the internet.
std::string Numeric(const sockaddr* address, socklen_t length);

// Returns the address of this machine's interface that leads there; empty, and the system's error in `*reason`, if none
// does. Sends no packet: connecting a datagram socket only chooses the interface.
std::string LocalAddressTowards(const addrinfo& there, std::string* reason);

// Returns the descriptor of a socket that listens on `address` only; the caller owns it. With port 0 the system chooses
// a free port. Returns -1, and the reason, if it cannot listen there.
int TryToListen(const std::string& address, int port, std::string* reason);

// The same, but throws UsageError if it cannot listen there.
int ListenOn(const std::string& address, int port);

int PortOf(int listening_descriptor);

}  // namespace dtrain::launch
