// What only a machine with a GPU needs: LibTorch's CUDA half and NCCL, in a shared library of its own
// (libdtrain_cuda.so, built with DTRAIN_CUDA). It is loaded where there is a GPU and nowhere else: on a machine without
// one the same binary starts in a third of the time, and runs without any of CUDA's libraries.
#pragma once

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace dtrain::distributed {

struct CudaPlugin {
  // GPUs that CUDA finds.
  int (*device_count)();
  // Makes `index` the current device of this thread.
  void (*set_device)(int index);
  // NCCL between the current devices of all ranks; `timeout_seconds` for each collective.
  c10::intrusive_ptr<c10d::Backend> (*make_nccl)(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                                                 double timeout_seconds);
};

// Loads the library, once per process; not before a fork. Throws UsageError where it is there and cannot be loaded (a
// driver that is too old, a library that is missing).
const CudaPlugin& LoadCudaPlugin();

// GPUs of this machine that this process may use, counted without touching CUDA (a process that has touched it cannot
// fork any more): the entries of CUDA_VISIBLE_DEVICES, or the device files. 0 where the library was not built.
int CountGpus();

}  // namespace dtrain::distributed
