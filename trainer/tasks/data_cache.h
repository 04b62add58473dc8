// --cache=ram: after the first epoch no record is read from storage again.
#pragma once

#include "trainer/distributed/rendezvous.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::loop {

// Puts a cache before the records of all splits, one for all ranks of this machine: the first of them to come makes it,
// the others find it through the rendezvous (null: this rank is alone). It takes most of the memory that is free at
// this moment, if there is that much to hold. A rank that cannot reach the others' (in a container of its own) says so,
// and has its own, of its share of that memory. A collective, after WaitForAll.
void KeepInMemory(DataSets& data, distributed::Rendezvous* rendezvous);

}  // namespace dtrain::loop
