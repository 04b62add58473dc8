// Who started this process, and how its ranks are to find each other.
#pragma once

#include <string>
#include <vector>

#include "trainer/doctor/finding.h"
#include "trainer/launch/launch.h"

namespace dtrain::doctor {

// The launcher as detected, and this process's place.
Finding LauncherFound(const launch::Launch& launch);

// What a name resolves to: numeric addresses, or the resolver's reason.
struct Resolved {
  std::vector<std::string> addresses;
  std::string reason;
};
Resolved Resolve(const std::string& host);

// The address of rank 0, as this machine sees it. A name that several machines share and that is this machine's own
// loopback here (Debian's /etc/hosts has such lines) is reached by nobody else: the meeting shows whether that matters.
Finding JudgeAddress(const launch::Launch& launch, const Resolved& resolved);

// Rank 0's port, by listening on it for a moment.
Finding TryPort(const launch::Launch& launch, bool already_listens);

// Whether strangers can join: docs/trust.md.
Finding JudgeToken(const launch::Launch& launch);

// This machine's clock beside rank 0's. `seconds_off` holds the time that the answer took, too.
Finding JudgeClock(double seconds_off);

}  // namespace dtrain::doctor
