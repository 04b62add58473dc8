// The kernel around the function of the header. It includes no torch header, so nvcc takes seconds, not minutes.
#include "models/kernels/space_to_depth.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace dtrain::models::kernels {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads) Rearrange(const SpaceToDepthArguments arguments) {
  SpaceToDepthThread<T>(arguments, static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x);
}

}  // namespace

int LaunchSpaceToDepth(const SpaceToDepthArguments& arguments, Element element, void* stream) {
  const auto blocks = static_cast<unsigned>((arguments.Threads() + kThreads - 1) / kThreads);
  auto* const cuda_stream = static_cast<cudaStream_t>(stream);
  switch (element) {
    case Element::kHalf:
      Rearrange<__half><<<blocks, kThreads, 0, cuda_stream>>>(arguments);
      break;
    case Element::kBFloat16:
      Rearrange<__nv_bfloat16><<<blocks, kThreads, 0, cuda_stream>>>(arguments);
      break;
    case Element::kFloat:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace dtrain::models::kernels
