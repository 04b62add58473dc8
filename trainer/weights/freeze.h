// --freeze: excludes parts of a model from training.
#pragma once

#include <torch/nn/module.h>

#include <string>

#include "trainer/config/config.h"

namespace dtrain::weights {

// Turns gradients off for the parameters of the modules that `config.freeze` names, so that ParametersOf and
// RunningStatistics leave them out. Puts frozen batch normalisation into evaluation mode: it normalises with its
// running statistics and does not change them. Dropout stays active. Throws UsageError if there is no module of such a
// name, with a list of modules, and if nothing is left to learn. `head`: the module that is not part of the backbone.
void Freeze(const config::ModelConfig& config, const std::string& head, torch::nn::Module& module);

}  // namespace dtrain::weights
