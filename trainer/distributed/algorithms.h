// Chooses between the algorithms by which LibTorch and CUDA's libraries can compute the same result.
#pragma once

#include <cstdint>

namespace dtrain::distributed {

struct AlgorithmOptions {
  // --deterministic=run: the same computation gives the same bits each time, on the same kind of GPU with the same
  // libraries. Otherwise some algorithms add numbers in the order in which threads arrive.
  bool deterministic = false;
  // The number of algorithms that cuDNN times for each convolution to take the fastest, which may be another one next
  // time. 0: it takes its own first choice.
  int64_t cudnn_benchmark_limit = 0;
};

// Applies to the whole process. To be called before anything is computed on a GPU, because cuBLAS then reads the
// environment variable that this sets.
void ChooseAlgorithms(const AlgorithmOptions& options);

}  // namespace dtrain::distributed
