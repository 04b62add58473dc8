#include "trainer/report/metric.h"

#include <cmath>

namespace dtrain::report {

bool IsBetter(const Metric& candidate, const Metric& known) {
  if (std::isnan(candidate.value)) return false;
  if (candidate.name != known.name) return true;
  if (std::isnan(known.value)) return true;
  return candidate.higher_is_better ? candidate.value > known.value : candidate.value < known.value;
}

}  // namespace dtrain::report
