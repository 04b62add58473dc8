// How this process gets memory from the system.
#pragma once

#include <malloc.h>

namespace dtrain {

// A training step frees and allocates the same large tensors again and again. By default glibc gives them back to the
// system each time, and every page is then cleared and faulted in anew. Here the heap keeps them.
inline void KeepFreedMemory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
}

}  // namespace dtrain
