// How this process gets memory from the system.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace dtrain {

// A training step frees and allocates the same large tensors again and again. By default glibc gives them back to the
// system each time, and every page is then cleared and faulted in anew. Here the heap keeps them.
//
// There are few heaps: records are allocated by one of many reading threads and freed by a decoding one, and with
// glibc's eight heaps a core each grows on its own to the largest that it ever had to hold. (Loading images of all
// sizes on two cores, the process grew from 320 MiB to 455 MiB in a minute and went on; with two heaps it stays at
// 230.) One for two cores, at least two: the threads of as many cores as there are may want memory at once.
// MALLOC_ARENA_MAX says otherwise.
inline void KeepFreedMemory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  if (std::getenv("MALLOC_ARENA_MAX") == nullptr) {
    mallopt(M_ARENA_MAX, std::max(2, static_cast<int>(std::thread::hardware_concurrency()) / 2));
  }
}

}  // namespace dtrain
