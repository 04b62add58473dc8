// Which of several ways of computing the same LibTorch and CUDA's libraries take.
#pragma once

#include <cstdint>

namespace dtrain::distributed {

struct AlgorithmOptions {
  // --deterministic=run: the same bits whenever the same is computed on the same kind of GPU with the same libraries.
  // Otherwise cuDNN times its algorithms and takes the fastest, which may be another one the next time; some of them
  // add up in whatever order threads arrive.
  bool deterministic = false;
  int64_t cudnn_benchmark_limit = 10;  // how many algorithms are timed for each convolution; 0: all
};

// For the whole process, before anything is computed on a GPU (cuBLAS reads its environment variable then).
void ChooseAlgorithms(const AlgorithmOptions& options);

}  // namespace dtrain::distributed
