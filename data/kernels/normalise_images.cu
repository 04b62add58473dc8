// The kernel around the functions of the header. It includes no torch header, so nvcc takes seconds, not minutes.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "data/kernels/normalise_images.h"

namespace dtrain::data::kernels {
namespace {

constexpr int kThreadsPerBlock = 256;

template <typename T, Layout kLayout>
__global__ void __launch_bounds__(kThreadsPerBlock) Normalise(const NormaliseArguments arguments, T* to) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreadsPerBlock + threadIdx.x;
  if constexpr (kLayout == Layout::kInterleaved) {
    NormaliseInterleaved(arguments, to, thread);
  } else {
    NormalisePlanar(arguments, to, thread);
  }
}

int64_t ValuesOfThread(Layout layout) { return layout == Layout::kPlanar ? 1 : kValuesPerThread; }

template <typename T>
cudaError_t Launch(const NormaliseArguments& arguments, void* to, Layout layout, cudaStream_t stream) {
  const int64_t per_block = kThreadsPerBlock * ValuesOfThread(layout);
  const int64_t blocks = (arguments.values() + per_block - 1) / per_block;
  if (blocks == 0) return cudaSuccess;
  const auto grid = static_cast<unsigned>(blocks);
  auto* values = static_cast<T*>(to);
  switch (layout) {
    case Layout::kPlanar:
      Normalise<T, Layout::kPlanar><<<grid, kThreadsPerBlock, 0, stream>>>(arguments, values);
      break;
    case Layout::kInterleaved:
      Normalise<T, Layout::kInterleaved><<<grid, kThreadsPerBlock, 0, stream>>>(arguments, values);
      break;
  }
  return cudaGetLastError();
}

}  // namespace

int LaunchNormalise(const NormaliseArguments& arguments, void* to, Element element, Layout layout, void* stream) {
  auto* cuda_stream = static_cast<cudaStream_t>(stream);
  switch (element) {
    case Element::kFloat:
      return Launch<float>(arguments, to, layout, cuda_stream);
    case Element::kHalf:
      return Launch<__half>(arguments, to, layout, cuda_stream);
    case Element::kBFloat16:
      return Launch<__nv_bfloat16>(arguments, to, layout, cuda_stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace dtrain::data::kernels
