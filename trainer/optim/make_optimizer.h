// Makes the optimizer that the configuration names.
#pragma once

#include <memory>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

// Returns the optimizer of --optimizer and its companions. For parameters of half precision adam, adamw and
// fairseq_adam are MemoryEfficientAdam. The parameters must be on their final device. An empty `rate_factor` is 1 for
// all. Throws UsageError for an unknown name.
std::unique_ptr<Optimizer> MakeOptimizer(const config::OptimizerConfig& config,
                                         const std::vector<NamedTensor>& parameters,
                                         const RateFactor& rate_factor = nullptr,
                                         IsNeverDecayed is_never_decayed = nullptr);

// Makes the optimizer use this kernel, if it is an Adam. See Adam::UseKernel. `kernel` may be null.
void UseAdamKernel(Optimizer& optimizer, AdamKernel kernel, const models::HalfWeights& half_weights);

// Returns the bytes of state that this optimizer would keep for such parameters, without allocating them.
int64_t OptimizerStateBytes(const config::OptimizerConfig& config, const std::vector<NamedTensor>& parameters);

}  // namespace dtrain::optim
