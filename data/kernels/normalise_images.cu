// The kernel around the functions of the header. No torch header: nvcc takes seconds for this file, not minutes.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "data/kernels/normalise_images.h"

namespace dtrain::data::kernels {
namespace {

constexpr int kThreadsPerBlock = 256;

template <typename T, bool kChannelsLast>
__global__ void __launch_bounds__(kThreadsPerBlock) Normalise(const NormaliseArguments arguments, T* to) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreadsPerBlock + threadIdx.x;
  if constexpr (kChannelsLast) {
    NormaliseInterleaved(arguments, to, thread);
  } else {
    NormalisePlanar(arguments, to, thread);
  }
}

template <typename T>
cudaError_t Launch(const NormaliseArguments& arguments, void* to, bool channels_last, cudaStream_t stream) {
  const int64_t per_block = kThreadsPerBlock * (channels_last ? kValuesPerThread : 1);
  const int64_t blocks = (arguments.values() + per_block - 1) / per_block;
  if (blocks == 0) return cudaSuccess;
  const auto grid = static_cast<unsigned>(blocks);
  if (channels_last) {
    Normalise<T, true><<<grid, kThreadsPerBlock, 0, stream>>>(arguments, static_cast<T*>(to));
  } else {
    Normalise<T, false><<<grid, kThreadsPerBlock, 0, stream>>>(arguments, static_cast<T*>(to));
  }
  return cudaGetLastError();
}

}  // namespace

int LaunchNormalise(const NormaliseArguments& arguments, void* to, Element element, bool channels_last, void* stream) {
  auto* cuda_stream = static_cast<cudaStream_t>(stream);
  switch (element) {
    case Element::kFloat:
      return Launch<float>(arguments, to, channels_last, cuda_stream);
    case Element::kHalf:
      return Launch<__half>(arguments, to, channels_last, cuda_stream);
    case Element::kBFloat16:
      return Launch<__nv_bfloat16>(arguments, to, channels_last, cuda_stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace dtrain::data::kernels
