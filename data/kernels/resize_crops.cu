// The kernels around the functions of the header. It includes no torch header, so nvcc takes seconds, not minutes.
#include "data/kernels/resize_crops.h"

namespace dtrain::data::kernels {
namespace {

constexpr int kThreadsPerBlock = 256;

unsigned Blocks(int64_t threads) { return static_cast<unsigned>((threads + kThreadsPerBlock - 1) / kThreadsPerBlock); }

__global__ void __launch_bounds__(kThreadsPerBlock) Resize(const ResizeArguments arguments) {
  ResizePixel(arguments, static_cast<int64_t>(blockIdx.x) * kThreadsPerBlock + threadIdx.x);
}

__global__ void __launch_bounds__(kThreadsPerBlock) FindUntouched(const Crop* crops, int64_t count, bool* untouched) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreadsPerBlock + threadIdx.x;
  if (i < count) untouched[i] = IsUntouched(crops[i]);
}

}  // namespace

int LaunchResize(const ResizeArguments& arguments, void* stream) {
  if (arguments.count == 0) return cudaSuccess;
  Resize<<<Blocks(arguments.pixels()), kThreadsPerBlock, 0, static_cast<cudaStream_t>(stream)>>>(arguments);
  return cudaGetLastError();
}

int LaunchFindUntouched(const Crop* crops, int64_t count, bool* untouched, void* stream) {
  if (count == 0) return cudaSuccess;
  FindUntouched<<<Blocks(count), kThreadsPerBlock, 0, static_cast<cudaStream_t>(stream)>>>(crops, count, untouched);
  return cudaGetLastError();
}

}  // namespace dtrain::data::kernels
