// Checks of the launcher, and of address, port, token and clock, which ranks need to find and understand each other.
#pragma once

#include <string>
#include <vector>

#include "trainer/doctor/finding.h"
#include "trainer/launch/launch.h"

namespace dtrain::doctor {

// Names the launcher that was detected, and this process's rank. Always ok.
Finding LauncherFound(const launch::Launch& launch);

// The numeric addresses of a host name; if there are none, the resolver's reason.
struct Resolved {
  std::vector<std::string> addresses;
  std::string reason;
};
Resolved Resolve(const std::string& host);

// Judges the address of rank 0, as this machine resolves it. In a run of several machines a loopback address (Debian's
// /etc/hosts has such lines for the own name) only earns a warning: the meeting of the ranks shows whether it matters.
Finding JudgeAddress(const launch::Launch& launch, const Resolved& resolved);

// On rank 0, listens on its port for a moment. `already_listens`: the node launcher has opened it.
Finding TryPort(const launch::Launch& launch, bool already_listens);

// Judges whether strangers can join the run: docs/trust.md.
Finding JudgeToken(const launch::Launch& launch);

// `seconds_off` is this machine's clock minus rank 0's. It includes the time that rank 0's answer took.
Finding JudgeClock(double seconds_off);

}  // namespace dtrain::doctor
