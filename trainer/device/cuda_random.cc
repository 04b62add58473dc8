#include "trainer/device/cuda_random.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <mutex>

namespace dtrain::device {

models::kernels::RandomState CudaRandom() {
  at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator();
  const std::scoped_lock lock(generator.mutex());
  const at::PhiloxCudaState state =
      generator.get<at::CUDAGeneratorImpl>()->philox_cuda_state(models::kernels::kNumbersOfCounter);
  if (!state.captured_) return {.seed = state.seed_.val, .offset = state.offset_.val};
  return {.seed = 0, .offset = state.offset_intragraph_, .seed_at = state.seed_.ptr, .offset_at = state.offset_.ptr};
}

}  // namespace dtrain::device
