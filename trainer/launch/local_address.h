// This machine's own place in the network.
#pragma once

#include <string>

namespace dtrain::launch {

// The numeric address at which other machines reach this one: that of the default route's interface, or else of the
// first interface that is up, or else 127.0.0.1. No packet is sent.
std::string OwnAddress();

// Whether only processes of this machine reach it.
bool IsLoopback(const std::string& address);

// A socket that listens at a numeric address only, at a port that the system chooses. Throws PeerLostError.
int ListenAnywhereOn(const std::string& address, int* port);

}  // namespace dtrain::launch
