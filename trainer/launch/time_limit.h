// When a job has to have saved its training, since its launcher ends it soon afterwards.
#pragma once

#include <ctime>
#include <optional>
#include <string>

#include "trainer/launch/launch.h"

namespace dtrain::launch {

struct TimeLimit {
  double seconds = 0;  // from now on
  std::string reason;  // for people
};

// Returns the limit of --max_hours; if that is not given, three minutes before the end of the Slurm job, or in the
// middle of the time that is left, if that is later. Empty if there is no limit or the end has passed. AWS Batch,
// Kubernetes and others tell their jobs no end.
std::optional<TimeLimit> FindTimeLimit(const std::optional<double>& max_hours, const Environment& environment,
                                       std::time_t now);

}  // namespace dtrain::launch
