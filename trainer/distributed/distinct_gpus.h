// No two ranks of a run on one GPU: they would train, each at half the speed and with half the memory, and NCCL fails
// with a message that helps nobody.
#pragma once

#include <string>

#include "trainer/distributed/rendezvous.h"

namespace dtrain::distributed {

// A collective over the store, after WaitForAll. `pci_id` is of this rank's GPU; empty: the CPU. `machine` tells
// machines apart. Throws UsageError on every rank, naming the two.
void RequireDistinctGpus(Rendezvous& rendezvous, const std::string& pci_id, const std::string& machine);

// This boot of this machine's kernel: the same in all its containers, which may share GPUs while their names differ.
std::string MachineId();

}  // namespace dtrain::distributed
