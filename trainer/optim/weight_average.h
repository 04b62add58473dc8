// A moving average of the weights (EMA), which often predicts better than the weights themselves.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

// Share of the average that stays at its n-th update, n from 1: min(decay, (1 + n) / (10 + n)), as in TensorFlow. With
// 0.9999 from the start it would be mostly the initial weights for tens of epochs.
double AverageDecay(double decay, int64_t update);

struct WeightAverageOptions {
  double decay = 0.9999;
  int64_t every = 1;  // steps between two updates
};

class WeightAverage {
 public:
  // `state`: parameters and buffers, where they will stay; the average begins as a copy of them.
  WeightAverage(const std::vector<NamedTensor>& state, const WeightAverageOptions& options);

  // After so many steps of the training, of which the average's decay is a function: nothing else is to be saved.
  void AfterStep(int64_t steps_done);

  // Takes in what the weights are now: a ← d·a + (1 − d)·w. Buffers of whole numbers (counters) are copied. The host
  // does not wait for the device.
  void Update(double decay);

  // The average by the names of the weights; shared, not copied.
  const std::vector<NamedTensor>& tensors() const { return averages_; }

  // While alive, the model has the average for its weights, and the average theirs: nothing is copied.
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
  std::vector<at::Tensor> weights_;
  std::vector<NamedTensor> averages_;  // in the same order
};

}  // namespace dtrain::optim
