// What the system grants this process: limits that a long run meets late.
#pragma once

#include <cstdint>

#include "trainer/doctor/finding.h"
#include "trainer/launch/launch.h"

namespace dtrain::doctor {

struct Threads {
  int64_t machine_cores = 1;    // of the whole machine
  int64_t available_cores = 1;  // of them, what affinity and the container's quota leave
  int64_t local_ranks = 1;
  int64_t compute_threads = 1;  // of each rank, as OMP_NUM_THREADS says or its share of the cores
  int64_t workers = 1;          // of each rank
};
Finding JudgeThreads(const Threads& threads);

// How many files and connections this process may have open. Rank 0 has connections to all others.
Finding JudgeOpenFiles(uint64_t limit, int world_size);

// RLIMIT_MEMLOCK, in bytes. Adapters for InfiniBand and EFA use locked memory only.
Finding JudgeLockedMemory(uint64_t limit_bytes, bool has_rdma);

// What is free in /dev/shm, through which NCCL's ranks of one machine talk.
Finding JudgeSharedMemory(int64_t free_bytes, int local_ranks, bool on_gpus);

// These ask the machine.
Threads CountThreads(const launch::Launch& launch, int64_t workers);
Finding LookAtOpenFiles(int world_size);
Finding LookAtLockedMemory();
Finding LookAtSharedMemory(int local_ranks, bool on_gpus);
// Whether there is an adapter for InfiniBand or EFA.
bool HasRdma();

}  // namespace dtrain::doctor
