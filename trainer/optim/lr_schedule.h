// The learning rate as a pure function of the number of steps done.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::optim {

struct LrScheduleOptions {
  std::string name = "poly";  // poly | cosine | step | exponential | constant
  double peak = 0.1;
  double warmup_start = 0;
  double end = 0;            // poly and cosine end here
  int64_t warmup_steps = 0;  // W
  int64_t total_steps = 1;   // T: where poly and cosine reach the end
  double poly_power = 2;
  double decay_factor = 0.1;              // step and exponential: × factor …
  std::vector<double> decay_steps = {1};  // … every so many steps; step with several: at each of these
  bool through_warmup = false;            // see below
};

// Learning rate of the step that follows `steps_done` (from 0) steps:
//   s < W: start + (peak − start)·s/W;   after it, with a = s − W and p = a/(T − W), at most 1:
//   poly         end + (peak − end)·(1 − p)^power
//   cosine       end + (peak − end)·(1 + cos πp)/2
//   step         peak·factor^⌊a/decay_steps⌋, or peak·factor^(how many of several decay_steps are ≤ a)
//   exponential  peak·factor^(a/decay_steps)
//   constant     peak
// These are torch.optim.lr_scheduler's in a SequentialLR behind a LinearLR, as torchvision's references have them. With
// `through_warmup` a = s and p = s/T: timm.scheduler's without warmup_prefix, and TensorFlow's.
double LearningRate(const LrScheduleOptions& options, int64_t steps_done);

}  // namespace dtrain::optim
