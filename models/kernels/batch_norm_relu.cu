// The kernels around the functions of the header. It includes no torch header, so nvcc takes seconds, not minutes.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "models/kernels/batch_norm_relu.h"

namespace dtrain::models::kernels {
namespace {

constexpr int kThreadsPerBlock = 256;
// A thread has enough rows to make loading its constants worthwhile, and there are enough blocks for the largest GPU,
// several times over.
constexpr int64_t kRowsPerThread = 8, kMostBlocks = 8192;
// A block of Sum has this many groups of channels side by side; its other threads work on further rows.
constexpr int kGroupsOfBlock = 8, kRowsOfBlock = kThreadsPerBlock / kGroupsOfBlock;
constexpr int64_t kMostPartialSums = 256;

template <typename T>
__global__ void __launch_bounds__(kThreadsPerBlock) Forward(const ForwardArguments arguments) {
  ForwardThread<T>(arguments, static_cast<int64_t>(blockIdx.x) * kThreadsPerBlock + threadIdx.x,
                   static_cast<int64_t>(gridDim.x) * kThreadsPerBlock);
}

template <typename T>
__global__ void __launch_bounds__(kThreadsPerBlock) Backward(const BackwardArguments arguments) {
  BackwardThread<T>(arguments, static_cast<int64_t>(blockIdx.x) * kThreadsPerBlock + threadIdx.x,
                    static_cast<int64_t>(gridDim.x) * kThreadsPerBlock);
}

// Adds up the threads of a block that have the same channels, in the order of their rows. The caller adds up the
// blocks.
template <typename T>
__global__ void __launch_bounds__(kThreadsPerBlock) Sum(const BackwardArguments arguments, float* partial) {
  __shared__ float below[kRowsOfBlock][kGroupsOfBlock * 2 * kWidth];
  const int group = threadIdx.x % kGroupsOfBlock, row = threadIdx.x / kGroupsOfBlock;
  const int64_t first_channel = static_cast<int64_t>(blockIdx.x) * kGroupsOfBlock * kWidth;
  const int64_t channel = first_channel + group * kWidth;
  GradientSums sums = {};
  if (channel < arguments.channels) {
    sums = SumThread<T>(arguments, static_cast<int64_t>(blockIdx.y) * kRowsOfBlock + row,
                        static_cast<int64_t>(gridDim.y) * kRowsOfBlock, channel);
  }
  for (int i = 0; i < kWidth; ++i) {
    below[row][group * kWidth + i] = sums.dy[i];
    below[row][kGroupsOfBlock * kWidth + group * kWidth + i] = sums.dy_centred[i];
  }
  __syncthreads();
  constexpr int kColumns = kGroupsOfBlock * 2 * kWidth;
  if (threadIdx.x >= kColumns) return;
  const int64_t of_channel = first_channel + threadIdx.x % (kGroupsOfBlock * kWidth);
  if (of_channel >= arguments.channels) return;
  float total = 0;
  for (int i = 0; i < kRowsOfBlock; ++i) total += below[i][threadIdx.x];
  const int64_t which = threadIdx.x / (kGroupsOfBlock * kWidth);
  partial[(static_cast<int64_t>(blockIdx.y) * 2 + which) * arguments.channels + of_channel] = total;
}

unsigned Blocks(int64_t rows, int64_t channels) {
  const int64_t threads = (rows + kRowsPerThread - 1) / kRowsPerThread * (channels / kWidth);
  const int64_t blocks = std::min((threads + kThreadsPerBlock - 1) / kThreadsPerBlock, kMostBlocks);
  // At least enough threads for one row.
  return static_cast<unsigned>(std::max(blocks, (channels / kWidth + kThreadsPerBlock - 1) / kThreadsPerBlock));
}

// Calls `with` with a value of the type that `element` names.
template <typename With>
int ForElement(Element element, const With& with) {
  switch (element) {
    case Element::kFloat:
      with(float{});
      break;
    case Element::kHalf:
      with(__half{});
      break;
    case Element::kBFloat16:
      with(__nv_bfloat16{});
      break;
  }
  return cudaGetLastError();
}

}  // namespace

int64_t NumPartialSums(int64_t rows, int64_t /*channels*/) {
  const int64_t wanted = (rows + kRowsOfBlock * kRowsPerThread - 1) / (kRowsOfBlock * kRowsPerThread);
  return std::min(std::max<int64_t>(wanted, 1), kMostPartialSums);
}

int LaunchForward(const ForwardArguments& arguments, Element element, void* stream) {
  if (arguments.rows == 0) return cudaSuccess;
  return ForElement(element, [&](auto type) {
    Forward<decltype(type)>
        <<<Blocks(arguments.rows, arguments.channels), kThreadsPerBlock, 0, static_cast<cudaStream_t>(stream)>>>(
            arguments);
  });
}

int LaunchSum(const BackwardArguments& arguments, Element element, float* partial, void* stream) {
  const int64_t groups = arguments.channels / kWidth;
  const dim3 grid(static_cast<unsigned>((groups + kGroupsOfBlock - 1) / kGroupsOfBlock),
                  static_cast<unsigned>(NumPartialSums(arguments.rows, arguments.channels)));
  return ForElement(element, [&](auto type) {
    Sum<decltype(type)><<<grid, kThreadsPerBlock, 0, static_cast<cudaStream_t>(stream)>>>(arguments, partial);
  });
}

int LaunchBackward(const BackwardArguments& arguments, Element element, void* stream) {
  if (arguments.rows == 0) return cudaSuccess;
  return ForElement(element, [&](auto type) {
    Backward<decltype(type)>
        <<<Blocks(arguments.rows, arguments.channels), kThreadsPerBlock, 0, static_cast<cudaStream_t>(stream)>>>(
            arguments);
  });
}

}  // namespace dtrain::models::kernels
