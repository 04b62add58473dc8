// The one place where an optimizer's name becomes one.
#pragma once

#include <memory>
#include <string>

#include "trainer/config/config.h"
#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

// As --optimizer and its companions say; where the parameters are of half precision, Adam is the memory-efficient one.
// The parameters are where they will stay; those of the module `classifier` (empty: none is) learn at the whole rate.
// Throws UsageError for an unknown name.
std::unique_ptr<Optimizer> MakeOptimizer(const config::OptimizerConfig& config,
                                         const std::vector<NamedTensor>& parameters,
                                         const std::string& classifier = "");

// Bytes that MakeOptimizer's would keep for such parameters, for plans: nothing is allocated.
int64_t OptimizerStateBytes(const config::OptimizerConfig& config, const std::vector<NamedTensor>& parameters);

}  // namespace dtrain::optim
