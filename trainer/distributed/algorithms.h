// Chooses between the algorithms by which LibTorch and CUDA's libraries can compute the same result.
#pragma once

#include <cstdint>

namespace dtrain::distributed {

struct AlgorithmOptions {
  // --deterministic=run: the same computation gives the same bits each time, on the same kind of GPU with the same
  // libraries. Otherwise cuDNN times its algorithms and takes the fastest, which may be another one next time, and some
  // algorithms add numbers in the order in which threads arrive.
  bool deterministic = false;
  int64_t cudnn_benchmark_limit = 1;  // the number of algorithms timed for each convolution; 0: all
};

// Applies to the whole process. To be called before anything is computed on a GPU, because cuBLAS then reads the
// environment variable that this sets.
void ChooseAlgorithms(const AlgorithmOptions& options);

}  // namespace dtrain::distributed
