#include "trainer/launch/time_limit.h"

#include <algorithm>

#include "data/whole_number.h"

namespace dtrain::launch {

std::optional<TimeLimit> FindTimeLimit(const std::optional<double>& max_hours, const Environment& environment,
                                       std::time_t now) {
  constexpr double kReserve = 180;  // for the last step and the save
  if (max_hours) {
    if (*max_hours == 0) return std::nullopt;
    return TimeLimit{3600 * *max_hours, "--max_hours"};
  }
  // In seconds since 1970.
  const auto variable = environment.find("SLURM_JOB_END_TIME");
  const auto end = variable == environment.end() ? std::nullopt : data::WholeNumber<int64_t>(variable->second);
  if (!end || *end <= now) return std::nullopt;
  const auto left = static_cast<double>(*end - now);
  return TimeLimit{std::max(left - kReserve, left / 2), "the end of the Slurm job"};
}

}  // namespace dtrain::launch
