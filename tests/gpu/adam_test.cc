// Adam's kernel is ATen's but for rounding: on an H100 the last bit of some weights differs.
#include "tests/gpu/gpu.h"
#include "tests/trainer/optim/adam_comparison.h"
#include "trainer/device/cuda_plugin.h"

namespace dtrain {
namespace {

TEST(AdamKernel, AgreesWithAtensButForRounding) {
  const at::Device gpu = Gpu();
  for (const optim::AdamCase& c : optim::AdamCases()) {
    for (const at::ScalarType copies : {at::kFloat, at::kHalf, at::kBFloat16}) {
      SCOPED_TRACE(testing::Message() << c.options.beta1 << c.options.epsilon_before_correction << copies);
      optim::CompareAdam(c, copies, device::AdamKernelOn(gpu), gpu, /*tolerance=*/1e-6);
    }
  }
}

}  // namespace
}  // namespace dtrain
