#include "trainer/distributed/algorithms.h"

#include <ATen/Context.h>

#include <cstdlib>

namespace dtrain::distributed {

void ChooseAlgorithms(const AlgorithmOptions& options) {
  at::Context& context = at::globalContext();
  // Shapes do not change from step to step: the fastest convolution is looked for once.
  context.setBenchmarkCuDNN(!options.deterministic);
  context.setBenchmarkLimitCuDNN(static_cast<int>(options.cudnn_benchmark_limit));
  context.setDeterministicCuDNN(options.deterministic);
  // Where LibTorch doubts an operator that has one way only, it warns rather than throws: the pooling of channels-last
  // images is among those, and adds up in a fixed order all the same.
  context.setDeterministicAlgorithms(options.deterministic, /*warn_only=*/true);
  context.setDeterministicFillUninitializedMemory(false);  // a debugging aid, which costs a pass over every tensor
  if (options.deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/0);
}

}  // namespace dtrain::distributed
