// Handlers of signals.
#pragma once

namespace dtrain {

// Returns whether the signal is ignored, as SIGHUP is under nohup.
bool IsIgnored(int signal);

// From now on `handler` runs when the signal arrives; with `once`, the next one has its default action. System calls go
// on. On the calling thread handlers have a stack of their own: oneDNN's products (jit_avx512_common_gemm_f32) let the
// stack pointer point into a buffer on the heap, and a handler's frame there would overwrite what lies before it.
void HandleSignal(int signal, void (*handler)(int), bool once = false);

}  // namespace dtrain
