#include "trainer/loop/save_interval.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace dtrain::loop {

double DalyInterval(double stall, double written, double between_faults) {
  if (stall >= 2 * between_faults) return std::max(between_faults, written);
  const double part = stall / (2 * between_faults);
  const double young = std::sqrt(2 * stall * between_faults);
  return std::max(young * (1 + std::sqrt(part) / 3 + part / 9) - stall, written);
}

SaveInterval::SaveInterval(const config::RunConfig& config)
    : between_faults_(3600 * config.expected_hours_between_faults) {
  if (config.save_every_seconds != "auto") given_ = std::strtod(config.save_every_seconds.c_str(), nullptr);
}

void SaveInterval::Note(double stall, std::optional<double> written) {
  stalls_ += stall;
  ++num_saves_;
  written_ = written.value_or(written_);
}

std::optional<double> SaveInterval::seconds() const {
  if (given_) return *given_ > 0 ? given_ : std::nullopt;
  if (num_saves_ == 0) return kFirstSeconds;
  const double stall = stalls_ / num_saves_;
  return DalyInterval(stall, written_, between_faults_) + stall;
}

}  // namespace dtrain::loop
