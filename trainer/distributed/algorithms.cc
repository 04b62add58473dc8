#include "trainer/distributed/algorithms.h"

#include <ATen/Context.h>

#include <cstdlib>

namespace dtrain::distributed {

void ChooseAlgorithms(bool deterministic) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(false);
  context.setDeterministicCuDNN(deterministic);
  // Warn only, because LibTorch lists operators as nondeterministic that have no alternative, among them the pooling of
  // channels-last images, which does add in a fixed order.
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/true);
  context.setDeterministicFillUninitializedMemory(false);  // a debugging aid that costs a pass over every tensor
  if (deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/0);
}

}  // namespace dtrain::distributed
