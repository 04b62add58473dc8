// Checks of the system's limits for this process, which a long run would hit late.
#pragma once

#include <cstdint>

#include "trainer/doctor/finding.h"
#include "trainer/launch/launch.h"

namespace dtrain::doctor {

struct Threads {
  int64_t machine_cores = 1;    // cores of the whole machine
  int64_t available_cores = 1;  // of these, as many as affinity and the container's quota leave
  int64_t local_ranks = 1;
  int64_t compute_threads = 1;  // of each rank: OMP_NUM_THREADS, or its share of the cores
  int64_t workers = 1;          // decode threads of each rank
};
Finding JudgeThreads(const Threads& threads);

// `limit` is the number of files and connections that this process may have open. Rank 0 is connected to all others.
Finding JudgeOpenFiles(uint64_t limit, int world_size);

// `limit_bytes` is RLIMIT_MEMLOCK. `has_rdma`: there is an adapter for InfiniBand or EFA, which needs locked memory.
Finding JudgeLockedMemory(uint64_t limit_bytes, bool has_rdma);

// `free_bytes` are free in /dev/shm, through which NCCL connects the ranks of a machine; below 0: it does not exist.
Finding JudgeSharedMemory(int64_t free_bytes, int local_ranks, bool on_gpus);

// These look at the machine.
Threads CountThreads(const launch::Launch& launch, int64_t workers);
Finding LookAtOpenFiles(int world_size);
Finding LookAtLockedMemory();
Finding LookAtSharedMemory(int local_ranks, bool on_gpus);
// Whether there is an adapter for InfiniBand or EFA.
bool HasRdma();

}  // namespace dtrain::doctor
