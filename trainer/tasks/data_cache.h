// --cache=ram: keeps the bytes of records in memory, so that after the first epoch none is read from storage again.
#pragma once

#include "trainer/distributed/rendezvous.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::tasks {

// Puts a cache in front of the records of all splits. The ranks of a machine share one cache: the first rank to arrive
// makes it, the others find it through `rendezvous` (null: this rank is alone). It grows to at most 80 % of the memory
// that is free now. A rank that cannot open the shared cache (it runs in a container of its own) logs a warning and
// makes its own, limited to its share of that memory. A collective, called after ControlPlane::WaitForAll.
void KeepInMemory(DataSets& data, distributed::Rendezvous* rendezvous);

}  // namespace dtrain::tasks
