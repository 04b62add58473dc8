#include "trainer/distributed/algorithms.h"

#include <ATen/Context.h>

#include <cstdlib>
#include <string_view>

namespace dtrain::distributed {

void ChooseAlgorithms(bool deterministic, bool tolerates_others) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(false);
  context.setDeterministicCuDNN(deterministic);
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/tolerates_others);
  context.setDeterministicFillUninitializedMemory(false);  // a debugging aid that costs a pass over every tensor
  const char* given = std::getenv("CUBLAS_WORKSPACE_CONFIG");
  const bool is_deterministic = given != nullptr && std::string_view(given) == ":16:8";  // cuBLAS takes no other
  if (deterministic && !is_deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/1);
}

}  // namespace dtrain::distributed
