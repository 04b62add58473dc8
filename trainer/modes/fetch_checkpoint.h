// With run directories on disks of the machines' own, a job that is started again may have rank 0 on another machine
// than before. The newest checkpoint that any rank finds in its own --run_dir counts: its holder sends it to rank 0.
#pragma once

#include <optional>

#include "trainer/checkpoint/store.h"
#include "trainer/modes/session.h"

namespace dtrain::modes {

// A collective. On rank 0, `store` is that of the run directory; if another rank has a newer valid checkpoint, returns
// where it has been put, a temporary folder of the store that the caller removes. Otherwise, and on the other ranks,
// returns empty. Throws StorageError if rank 0 cannot write it.
std::optional<checkpoint::Checkpoint> FetchNewestCheckpoint(const Session& session, const checkpoint::Store* store);

}  // namespace dtrain::modes
