// For tests whose programs sync each file that they write: their folders lie in memory, since a disk would take longer
// than all of the rest.
#pragma once

#include <stdlib.h>
#include <unistd.h>

namespace dtrain {

[[maybe_unused]] inline const bool folders_lie_in_memory =
    access("/dev/shm", W_OK) == 0 && setenv("TMPDIR", "/dev/shm", /*overwrite=*/0) == 0;

}  // namespace dtrain
