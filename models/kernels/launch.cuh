// What the .cu files of this folder share: the steps of a block with barriers between, and launches.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "models/kernels/channel_sums.h"
#include "models/kernels/column_sums.h"

namespace dtrain::models::kernels {

template <>
struct IsUpperHalfOfFloat<__nv_bfloat16> {
  static constexpr bool value = true;
};

constexpr int kThreads = kThreadsOfBlock;
// A thread has enough rows to make loading its constants worthwhile, and there are enough blocks for the largest GPU,
// several times over.
constexpr int64_t kRowsPerThread = 8, kMostBlocks = 8192;
// Each processor of the GPU has registers for this many blocks of any kernel. For sums, all blocks run at once: a later
// one would have a processor for itself.
constexpr int kBlocksPerProcessor = 3;

inline __device__ int64_t ThreadNumber() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }
inline __device__ int64_t NumThreads() { return static_cast<int64_t>(gridDim.x) * kThreads; }

// Returns, to all threads of a block alike, whether the other blocks of its column have finished. The fences make their
// partial sums visible to the last one (see threadFenceReduction among NVIDIA's samples). The counter returns to 0.
inline __device__ bool IsLastOfColumn(unsigned* finished) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicInc(&finished[blockIdx.x], gridDim.y - 1) == gridDim.y - 1;
  __syncthreads();
  if (is_last) __threadfence();
  return is_last;
}

// Steps 1 to 4 of channel_sums.h.
template <typename Finish>
__device__ void AddUp(const Place& place, const ChannelSums& of_thread, const SumsMemory& sums, int64_t channels,
                      BlockMemory& memory, const Finish& finish) {
  const int thread = static_cast<int>(threadIdx.x);
  KeepSums(place, of_thread, memory);
  __syncthreads();
  WritePartialSums(memory, place.first_channel, blockIdx.y, channels, thread, sums.partial);
  if (!IsLastOfColumn(sums.finished)) return;
  AddSlice(sums, place.first_channel, channels, thread, memory);
  __syncthreads();
  FinishChannels(memory, place.first_channel, channels, thread, finish);
}

inline unsigned Blocks(int64_t rows, int64_t channels) {
  const int64_t threads = (rows + kRowsPerThread - 1) / kRowsPerThread * (channels / kWidth);
  const int64_t blocks = std::min((threads + kThreads - 1) / kThreads, kMostBlocks);
  // At least enough threads for one row.
  return static_cast<unsigned>(std::max(blocks, (channels / kWidth + kThreads - 1) / kThreads));
}

inline dim3 SumGrid(int64_t channels, int parts) {
  return {static_cast<unsigned>(NumColumns(channels)), static_cast<unsigned>(parts)};
}

inline cudaStream_t StreamOf(void* stream) { return static_cast<cudaStream_t>(stream); }

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

// The same for kernels of half types alone.
template <typename With>
int ForHalf(Element element, const With& with) {
  if (element == Element::kFloat) return cudaErrorInvalidValue;
  if (element == Element::kHalf) {
    with(__half{});
  } else {
    with(__nv_bfloat16{});
  }
  return cudaGetLastError();
}

inline int NumProcessors() {
  int device = 0, processors = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  return processors;
}

}  // namespace dtrain::models::kernels
