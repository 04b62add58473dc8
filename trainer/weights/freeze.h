// --freeze: parts of a model that do not learn.
#pragma once

#include <torch/nn/module.h>

#include "trainer/config/config.h"

namespace dtrain::loop {

// The parameters of the modules that `config.freeze` names take no gradient from here on: ParametersOf and
// RunningStatistics leave them out. Batch normalisation among them is in evaluation mode: it normalises with its
// running statistics, and keeps them. Dropout stays. Throws UsageError that lists the modules there are where a name is
// none of them, and where nothing is left to learn.
void Freeze(const config::ModelConfig& config, torch::nn::Module& module);

}  // namespace dtrain::loop
