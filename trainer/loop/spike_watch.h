// --spike_factor: finds the losses that stand out from those before. The loss is that of the global batch, the same on
// all ranks, so that all find the same spikes. The decision is made on the device, by a few small operations in each
// step, and the host does not wait for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/loop/training_state.h"

namespace dtrain::loop {

struct Spike {
  int64_t step = 0;  // counted from 1
  double loss = 0;
  double mean = 0, deviation = 0;  // of the losses before
};

// With W = kWindow and factor k, the n-th loss x is a spike if n > W and x > mean + k · deviation. Then mean += a · d
// and variance = (1 - a) · (variance + a · d²), where d = x - mean and a = 1 / min(n, W): these are the mean and
// variance of all losses so far, and after W of them exponential ones. A spike counts there as the bound that it
// exceeds, so that a lasting change of the loss is soon no spike any more. Losses that are not finite, and steps with
// nothing to learn, do not count.
class SpikeWatch {
 public:
  // The spikes that are kept for Take. Further ones keep their effect on a step, but are not reported.
  static constexpr int64_t kMostKept = 32;
  static constexpr int64_t kWindow = 100;  // steps

  SpikeWatch(const config::OptimizerConfig& config, const LossStatistics& losses, at::Device device);

  // Looks at the loss of a step: `sums` is indexed by StepSum. Returns a float32 scalar on the device: 1 if it is a
  // spike, else 0. This is work of the device alone, since a step graph records it.
  at::Tensor Step(const at::Tensor& sums);

  // These wait for the device.
  // Returns the spikes since the last call, in order, and forgets them. `step`: the number of steps done.
  std::vector<Spike> Take(int64_t step);
  LossStatistics Losses() const;

 private:
  const double factor_;
  at::Tensor state_;   // float64 on the device, indexed by an enum of the source
  at::Tensor spikes_;  // float64 kMostKept×4 on the device: steps of this object, loss, mean, deviation
};

}  // namespace dtrain::loop
