// What the flags on optimizer, precision and the averaging of gradients mean.
#pragma once

#include <torch/nn/module.h>

#include "trainer/config/config.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/optim/parameter_update.h"

namespace dtrain::loop {

// For all parameters of `module`, which are on `device` to stay. The loss is scaled with --precision=fp16, and where
// --loss_scale is a number.
optim::ParameterUpdate MakeParameterUpdate(const config::Config& config, const torch::nn::Module& module,
                                           at::Device device);

distributed::DataParallelOptions DataParallelOptionsOf(const config::RanksConfig& ranks);

}  // namespace dtrain::loop
