// Ensures that no two ranks of a run compute on the same GPU. They would get half the speed and half the memory each,
// and NCCL refuses it with a message that does not help.
#pragma once

#include <string>

#include "trainer/device/device_choice.h"
#include "trainer/distributed/rendezvous.h"

namespace dtrain::distributed {

// Called by all ranks after WaitForAll; they exchange their GPUs over the store. `gpu` is this rank's, empty for the
// CPU; `machine` is MachineId(). If two ranks share a GPU, every rank throws UsageError naming them.
void RequireDistinctGpus(Rendezvous& rendezvous, const device::Gpu& gpu, const std::string& machine);

// Returns the boot id of this machine's kernel, or the host's name if it cannot be read. All containers of a machine
// have the same boot id; they may share GPUs although their host names differ.
std::string MachineId();

}  // namespace dtrain::distributed
