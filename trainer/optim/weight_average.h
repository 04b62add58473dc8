// A moving average of the weights (EMA), which often predicts better than the weights themselves.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

struct WeightAverageOptions {
  double decay = 0.9999;
  int64_t every = 1;  // the number of steps from one update to the next
  // What the n-th update (n from 1) keeps: with a decay of 0.9999 from the start, the initial weights would dominate
  // for tens of epochs.
  //   tensorflow   at most (1 + n) / (10 + n)
  //   nvidia       at most n / (9 + n), as the EMA of its ConvNets
  //   timm         at most 1 - n^(-2/3), as ModelEmaV3 with use_warmup
  //   torchvision  nothing until the learning rate's warmup has ended
  //   none         nothing the first time; so does ModelEmaV3
  std::string start = "tensorflow";
  int64_t warmup = 0;  // steps of the learning rate's warmup, for torchvision
};

// Returns the share of the average that the update after `steps_done` steps keeps. With `torchvision` it is 0 also
// for the first update after one within the warmup, as in torchvision's references. Throws std::invalid_argument for an
// unknown start.
double UpdateDecay(const WeightAverageOptions& options, int64_t steps_done);

class WeightAverage {
 public:
  // `state` are the model's parameters and buffers on their final device. The average is a copy of them at first.
  WeightAverage(const std::vector<NamedTensor>& state, const WeightAverageOptions& options);

  // Updates the average if an update is due after `steps_done` steps. The decay depends on that number alone, so a
  // checkpoint holds nothing but tensors().
  void AfterStep(int64_t steps_done);

  // Moves the average towards the current weights: a ← d·a + (1 − d)·w with d = `decay`. Integer buffers (counters) are
  // copied. The host does not wait for the device.
  void Update(double decay);

  // The average under the names of the weights; shared, not copied.
  const std::vector<NamedTensor>& tensors() const { return averages_; }

  // While alive, the model's tensors and those of the average are swapped, without copying.
  class Scope {
   public:
    explicit Scope(WeightAverage& average) : average_(average) { average_.Swap(); }
    ~Scope() { average_.Swap(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WeightAverage& average_;
  };

 private:
  void Swap();

  WeightAverageOptions options_;
  std::vector<at::Tensor> weights_;    // the model's tensors
  std::vector<NamedTensor> averages_;  // in the order of weights_
};

}  // namespace dtrain::optim
