// The addresses and ports of this machine.
#pragma once

#include <string>

namespace dtrain::launch {

// Returns the numeric address at which other machines reach this one: that of the interface of the default route, or of
// the first interface that is up, or 127.0.0.1. Sends no packet.
std::string OwnAddress();

// Whether only processes of this machine reach `address`.
bool IsLoopback(const std::string& address);

// Returns a socket that listens on `address`, which is numeric, and stores the port that the system chose in `*port`.
// The caller closes the socket. Throws PeerLostError.
int ListenAnywhereOn(const std::string& address, int* port);

}  // namespace dtrain::launch
