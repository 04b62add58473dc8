#include "trainer/distributed/algorithms.h"

#include <ATen/Context.h>

#include <cstdlib>

namespace dtrain::distributed {

void ChooseAlgorithms(const AlgorithmOptions& options) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(!options.deterministic && options.cudnn_benchmark_limit > 0);
  context.setBenchmarkLimitCuDNN(static_cast<int>(options.cudnn_benchmark_limit));
  context.setDeterministicCuDNN(options.deterministic);
  // Warn only, because LibTorch lists operators as nondeterministic that have no alternative, among them the pooling of
  // channels-last images, which does add in a fixed order.
  context.setDeterministicAlgorithms(options.deterministic, /*warn_only=*/true);
  context.setDeterministicFillUninitializedMemory(false);  // a debugging aid that costs a pass over every tensor
  if (options.deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/0);
}

}  // namespace dtrain::distributed
