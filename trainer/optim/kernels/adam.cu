// The kernel around the function of adam.h.
#include "trainer/optim/kernels/adam.h"

#include "models/kernels/launch.cuh"

namespace dtrain::optim::kernels {
namespace {

constexpr int kBlocksOfProcessor = 4;  // at least: with that, enough loads are on their way

template <typename Copy>
__global__ void __launch_bounds__(kAdamThreads, kBlocksOfProcessor)
    Adam(const __grid_constant__ AdamArguments arguments) {
  AdamThread<Copy>(arguments, blockIdx.x, static_cast<int>(threadIdx.x));
}

}  // namespace

int LaunchAdam(const AdamArguments& arguments, Element copies, void* stream) {
  return models::kernels::ForElement(copies, [&](auto type) {
    Adam<decltype(type)>
        <<<arguments.first_block[arguments.count], kAdamThreads, 0, models::kernels::StreamOf(stream)>>>(arguments);
  });
}

}  // namespace dtrain::optim::kernels
