// One exception type per exit code of the trainer. data/error.h has Error, their base, and DataError.
#pragma once

#include "data/error.h"

namespace dtrain {

using UsageError = ErrorOf<ExitCode::kUsage>;
using PeerLostError = ErrorOf<ExitCode::kPeerLost>;
using StorageError = ErrorOf<ExitCode::kStorage>;
using DivergedError = ErrorOf<ExitCode::kDiverged>;
using Preempted = ErrorOf<ExitCode::kPreempted>;

}  // namespace dtrain
