// Turns the flags on optimizer, precision and gradient averaging into the objects that implement them.
#pragma once

#include <torch/nn/module.h>

#include <optional>

#include "trainer/checkpoint/store.h"
#include "trainer/config/config.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/loop/plan.h"
#include "trainer/optim/parameter_update.h"
#include "trainer/optim/weight_average.h"

namespace dtrain::loop {

// Makes the update of all parameters of `module` that learn; they must already be on `device`, their final one. The
// loss is scaled with --precision=fp16, or if --loss_scale is a number. If autocast multiplies in a half type, training
// steps of the module use copies of its weights from now on, which the update writes.
optim::ParameterUpdate MakeParameterUpdate(const config::Config& config, const torch::nn::Module& module,
                                           at::Device device);

// Returns the average of the weights that `restored` holds. It starts from the current weights if `restored` is null or
// holds no average (which logs a warning). Returns empty without --ema_decay.
std::optional<optim::WeightAverage> MakeWeightAverage(const config::OptimizerConfig& config, const Plan& plan,
                                                      const torch::nn::Module& module,
                                                      const checkpoint::Snapshot* restored);

distributed::DataParallelOptions DataParallelOptionsOf(const config::RanksConfig& ranks, int64_t micro_steps);

}  // namespace dtrain::loop
