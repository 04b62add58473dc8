// The kernels of a language model's loss around the functions of cross_entropy.h.
#include "models/kernels/cross_entropy.h"

#include "models/kernels/launch.cuh"

namespace dtrain::models::kernels {

template <>
struct IsUpperHalfOfFloat<__nv_bfloat16> {
  static constexpr bool value = true;
};

namespace {

// Of a processor: with kGroupsAtOnce, enough loads are on their way. Turing's processors have threads for two.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kLogitsBlocks = 2;
#else
constexpr int kLogitsBlocks = 3;
#endif

// Returns the sum over a warp's lanes.
template <typename T>
__device__ ExpSum WarpSum(const ExpSum& of_thread) {
  constexpr unsigned kAll = 0xFFFFFFFFU;
  float largest = of_thread.largest;
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(kAll, largest, distance));
  }
  float sum = RelativeTo<T>(largest, of_thread);
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(kAll, sum, distance);
  return {largest, sum};
}

template <typename T>
__global__ void __launch_bounds__(kThreadsOfLogits, kLogitsBlocks) CrossEntropy(const CrossEntropyArguments arguments) {
  __shared__ ExpSum of_warps[kWarpsOfLogits];
  const int64_t row = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  if (arguments.answers[row] == arguments.ignored) {
    if (thread == 0) IgnoreRow(arguments, row);
    return;
  }
  const ExpSum of_warp = WarpSum<T>(SumLogits<T>(arguments, row, thread));
  if (thread % kLanes == 0) of_warps[thread / kLanes] = of_warp;
  __syncthreads();
  if (thread == 0) FinishRow<T>(arguments, row, of_warps);
}

template <typename T>
__global__ void __launch_bounds__(kThreadsOfLogits, kLogitsBlocks)
    CrossEntropyGradient(const CrossEntropyGradientArguments arguments) {
  CrossEntropyGradientThread<T>(arguments, blockIdx.x, static_cast<int>(threadIdx.x));
}

}  // namespace

int LaunchCrossEntropy(const CrossEntropyArguments& arguments, Element element, void* stream) {
  return ForElement(element, [&](auto type) {
    CrossEntropy<decltype(type)>
        <<<static_cast<unsigned>(arguments.rows), kThreadsOfLogits, 0, StreamOf(stream)>>>(arguments);
  });
}

int LaunchCrossEntropyGradient(const CrossEntropyGradientArguments& arguments, Element element, void* stream) {
  return ForElement(element, [&](auto type) {
    CrossEntropyGradient<decltype(type)>
        <<<static_cast<unsigned>(arguments.rows), kThreadsOfLogits, 0, StreamOf(stream)>>>(arguments);
  });
}

}  // namespace dtrain::models::kernels
