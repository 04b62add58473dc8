// The learning rate as a pure function of the number of steps done.
#pragma once

#include <cstdint>
#include <string>

namespace dtrain::optim {

struct LrScheduleOptions {
  std::string name = "poly";  // poly | cosine | step | exponential | constant
  double peak = 0.1;
  double warmup_start = 0;
  double end = 0;            // poly and cosine end here
  int64_t warmup_steps = 0;  // W
  int64_t total_steps = 1;   // T: where poly and cosine reach the end
  double poly_power = 2;
  double decay_factor = 0.1;  // step and exponential: × factor …
  double decay_steps = 1;     // … every so many steps
};

// Learning rate of the step that follows `steps_done` (from 0) steps:
//   s < W: start + (peak − start)·s/W;   after it, with p = (s − W)/(T − W), at most 1:
//   poly         end + (peak − end)·(1 − p)^power
//   cosine       end + (peak − end)·(1 + cos πp)/2
//   step         peak·factor^⌊(s − W)/decay_steps⌋
//   exponential  peak·factor^((s − W)/decay_steps)
//   constant     peak
double LearningRate(const LrScheduleOptions& options, int64_t steps_done);

}  // namespace dtrain::optim
