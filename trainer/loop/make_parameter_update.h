// What the flags on optimizer, precision and the averaging of gradients mean.
#pragma once

#include <torch/nn/module.h>

#include <optional>

#include "trainer/checkpoint/store.h"
#include "trainer/config/config.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/optim/parameter_update.h"
#include "trainer/optim/weight_average.h"

namespace dtrain::loop {

// For all parameters of `module`, which are on `device` to stay. The loss is scaled with --precision=fp16, and where
// --loss_scale is a number.
optim::ParameterUpdate MakeParameterUpdate(const config::Config& config, const torch::nn::Module& module,
                                           at::Device device);

// As it was saved, or as the weights are now; none without --ema_decay. `restored` may be null.
std::optional<optim::WeightAverage> MakeWeightAverage(const config::OptimizerConfig& config,
                                                      const torch::nn::Module& module,
                                                      const checkpoint::Snapshot* restored);

distributed::DataParallelOptions DataParallelOptionsOf(const config::RanksConfig& ranks);

}  // namespace dtrain::loop
