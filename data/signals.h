// Handlers of signals.
#pragma once

#include <csignal>

namespace dtrain {

// Those that ask a training to save and end, beside SIGHUP. Slurm's scripts send SIGUSR1, submitit sends SIGUSR2.
inline constexpr int kStopSignals[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};

// Returns whether the signal is ignored, as SIGHUP is under nohup.
bool IsIgnored(int signal);

// From now on `handler` runs when the signal arrives, also where a parent has blocked it. System calls go on. On the
// calling thread handlers have a stack of their own: oneDNN's products (jit_avx512_common_gemm_f32) let the stack
// pointer point into a buffer on the heap, and a handler's frame there would overwrite what lies before it.
void HandleSignal(int signal, void (*handler)(int));

// Ends the process by the signal, so that shell and scheduler see what happened. The first process of a container,
// which no signal ends, exits with the code that a shell shows for it. For handlers, too.
[[noreturn]] void EndBySignal(int signal);

}  // namespace dtrain
