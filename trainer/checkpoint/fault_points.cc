#include "trainer/checkpoint/fault_points.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace dtrain::checkpoint {

Fault NextFault() {
  const char* crash_at = std::getenv("DTRAIN_CRASH_AT");
  const char* fail_at = std::getenv("DTRAIN_FAIL_AT");
  if (crash_at == nullptr && fail_at == nullptr) return Fault::kNone;

  static std::atomic<int64_t> operations{0};
  static std::atomic<pid_t> counted{::getpid()};
  if (counted.exchange(::getpid()) != ::getpid()) operations = 0;  // each forked rank counts its own operations
  const int64_t operation = ++operations;
  if (crash_at != nullptr && operation == std::atoll(crash_at)) return Fault::kCrash;
  if (fail_at != nullptr) {
    char* end = nullptr;
    const int64_t first = std::strtoll(fail_at, &end, 10);
    const int64_t count = *end == ':' ? std::atoll(end + 1) : 1;
    if (operation >= first && operation - first < count) return Fault::kFail;
  }
  return Fault::kNone;
}

void Crash() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

bool NextOperationFails() {
  const Fault fault = NextFault();
  if (fault == Fault::kCrash) Crash();
  return fault == Fault::kFail;
}

}  // namespace dtrain::checkpoint
