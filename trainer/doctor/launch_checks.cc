#include "trainer/doctor/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "data/joined.h"
#include "trainer/control/line_socket.h"
#include "trainer/launch/local_address.h"
#include "trainer/launch/run_token.h"
#include "trainer/report/log.h"

namespace dtrain::doctor {

Finding LauncherFound(const launch::Launch& launch) {
  const std::string who = launch.launcher.is_one ? launch.launcher.name : "none, this machine alone";
  return Ok("launcher", who + ": rank " + std::to_string(launch.rank) + " of " + std::to_string(launch.world_size) +
                            ", local rank " + std::to_string(launch.local_rank) + " of " +
                            std::to_string(launch.local_world_size) + ", machine " + std::to_string(launch.node_rank) +
                            " of " + std::to_string(launch.nnodes) +
                            (launch.seen.empty() ? "" : " (seen: " + launch.seen + ")"));
}

Resolved Resolve(const std::string& host) {
  Resolved resolved;
  const launch::Addresses found = launch::Resolve(host, /*port=*/0, SOCK_STREAM, &resolved.reason);
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    resolved.addresses.push_back(launch::Numeric(one->ai_addr, one->ai_addrlen));
  }
  return resolved;
}

Finding JudgeAddress(const launch::Launch& launch, const Resolved& resolved) {
  constexpr const char* kCheck = "address";
  const std::string& host = launch.master_addr;
  if (host.empty()) return Ok(kCheck, "rank 0 publishes its address in the run directory, which all ranks must share");
  if (resolved.addresses.empty()) {
    return Failed(kCheck, ExitCode::kPeerLost, "rank 0's address '" + host + "' does not resolve: " + resolved.reason,
                  "set --master_addr or MASTER_ADDR to a name that all machines can resolve; in a cluster the name "
                  "service may lag by some seconds: try again");
  }
  const std::string is = "rank 0's address " + host + " is " + Joined(resolved.addresses);
  const bool loopback = std::all_of(resolved.addresses.begin(), resolved.addresses.end(), launch::IsLoopback);
  if (launch.nnodes > 1 && loopback) {
    return Warning(kCheck, is + ": only this machine can reach it",
                   "give the address of rank 0's network interface, or remove the name's 127.x line from /etc/hosts");
  }
  return Ok(kCheck, is);
}

Finding TryPort(const launch::Launch& launch, bool already_listens) {
  constexpr const char* kCheck = "port";
  if (launch.rank != 0) return Ok(kCheck, "rank 0's port is tested when the ranks meet");
  if (launch.agent_store) return Ok(kCheck, "torchrun's store uses it; the system chooses rank 0's own");
  if (already_listens || launch.master_port == 0) return Ok(kCheck, "chosen by the system");
  return Tried(kCheck, [&] {
    close(control::ListenOn(launch.master_addr, launch.master_port));
    return Ok(kCheck, std::to_string(launch.master_port) + " is free on " + launch.master_addr);
  });
}

Finding JudgeToken(const launch::Launch& launch) {
  constexpr const char* kCheck = "token";
  if (launch.world_size == 1) return Ok(kCheck, "one rank needs none");
  if (!launch.token.empty()) return Ok(kCheck, "the ranks share one");
  if (launch.agent_store || launch.master_addr.empty()) return Ok(kCheck, "rank 0 makes one and posts it");
  if (launch::IsLoopback(launch.master_addr)) return Ok(kCheck, "none; only this machine can reach rank 0");
  return Warning(kCheck, "none: anyone who can reach rank 0's port can join the run and end it",
                 "give all ranks the same secret in " + std::string(launch::kTokenVariable) + " (docs/trust.md)");
}

Finding JudgeClock(double seconds_off) {
  constexpr double kWorthASentence = 5;
  const std::string text = report::Format("%.1f s from rank 0's", std::abs(seconds_off));
  if (std::abs(seconds_off) < kWorthASentence) return Ok("clock", text);
  return Warning("clock", text, "set the clocks with NTP: the times in the machines' logs cannot be compared");
}

}  // namespace dtrain::doctor
