// Settings of glibc's heap for training.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace dtrain {

// A training step frees and allocates the same large tensors again and again. By default glibc returns them to the
// system each time, and every page is then cleared and faulted in anew. With these settings the heap keeps them.
//
// The number of heaps is small, because one of many reading threads allocates a record and a decoding thread frees it:
// with glibc's default of eight heaps per core, each heap grows to the largest size that it ever had to hold. (Loading
// images of all sizes on two cores, the process grew from 320 MiB to 455 MiB in a minute and went on growing; with two
// heaps it stays at 230 MiB.) There is one heap per two cores, but at least two, since threads on several cores may
// allocate at the same time. MALLOC_ARENA_MAX, if set, overrides this number.
inline void KeepFreedMemory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  if (std::getenv("MALLOC_ARENA_MAX") == nullptr) {
    mallopt(M_ARENA_MAX, std::max(2, static_cast<int>(std::thread::hardware_concurrency()) / 2));
  }
}

}  // namespace dtrain
