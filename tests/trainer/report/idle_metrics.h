// The metrics of a run that has not begun, on a machine without GPUs.
#pragma once

#include <memory>
#include <vector>

#include "trainer/report/metrics_endpoint.h"

namespace dtrain::report {

inline std::shared_ptr<RunMetrics> IdleMetrics() {
  return std::make_shared<RunMetrics>(RunFacts{.model = "m"}, [] { return std::vector<GpuUse>(); });
}

}  // namespace dtrain::report
