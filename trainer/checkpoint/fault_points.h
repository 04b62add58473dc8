// Test hooks of the files that must survive anything: each write, fsync, close and rename asks here whether it is to go
// wrong. Environment variables, because the process under test is often a real dtrain_main.
//   DTRAIN_CRASH_AT=n     the process kills itself (SIGKILL) at the n-th operation (a write is half done by then)
//   DTRAIN_FAIL_AT=n[:k]  operations n … n+k-1 fail (k = 1 unless given)
// Operations are counted from 1, and only while one of the two is set.
#pragma once

namespace dtrain::checkpoint {

enum class Fault { kNone, kFail, kCrash };

// Counts one operation and says what is to become of it. Safe to call from many threads.
Fault NextFault();

// Ends the process as kill -9 does.
[[noreturn]] void Crash();

// For an operation that either happens as a whole or not at all: crashes if told to; true when it is to fail.
bool NextOperationFails();

}  // namespace dtrain::checkpoint
