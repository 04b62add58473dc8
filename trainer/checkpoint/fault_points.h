// Test hooks for files that must survive any crash: each write, fsync, close and rename asks here whether it is to
// fail. They are set by environment variables, because the process under test is often a real dtrain_main.
//   DTRAIN_CRASH_AT=n     the process kills itself (SIGKILL) at the n-th operation (half-way through if it is a write)
//   DTRAIN_FAIL_AT=n[:k]  operations n … n+k-1 fail (k = 1 unless given)
// Operations are counted from 1 in each process, and only while one of the two variables is set.
#pragma once

namespace dtrain::checkpoint {

enum class Fault { kNone, kFail, kCrash };

// Counts one operation and returns the fault to inject into it. Thread-safe.
Fault NextFault();

// Kills this process with SIGKILL.
[[noreturn]] void Crash();

// For an operation that happens as a whole or not at all: crashes, or returns whether the operation is to fail.
bool NextOperationFails();

}  // namespace dtrain::checkpoint
