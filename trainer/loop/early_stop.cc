#include "trainer/loop/early_stop.h"

#include <cstdio>

namespace dtrain::loop {

std::string WhyStopsEarly(const config::RunConfig& config, const Plan& plan, const Progress& progress) {
  const double patience = config.stop_after_epochs_without_gain;
  if (!(patience > 0) || !progress.validation || !progress.best) return "";
  if (progress.validation->step != progress.step) return "";  // this step has not been evaluated
  const double without_gain = plan.EvaluatedEpoch(progress.step) - plan.EvaluatedEpoch(progress.best->step);
  if (without_gain < patience) return "";
  const report::Metric& best = progress.best->decisive();
  char text[256];
  std::snprintf(text, sizeof(text), "no better %s than %.*f of step %lld in %g epochs", best.name.c_str(),
                best.decimals, best.value, static_cast<long long>(progress.best->step), without_gain);
  return text;
}

}  // namespace dtrain::loop
