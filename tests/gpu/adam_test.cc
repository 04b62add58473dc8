// Adam's kernel is ATen's but for rounding: on an H100 the last bit of some weights differs.
#include "tests/gpu/gpu.h"
#include "tests/trainer/optim/adam_comparison.h"
#include "trainer/device/cuda_plugin.h"

namespace dtrain {
namespace {

TEST(AdamKernel, AgreesWithAtensButForRounding) {
  const at::Device gpu = Gpu();
  for (const config::OptimizerConfig& config : optim::AdamCases()) {
    for (const at::ScalarType copies : {at::kFloat, at::kHalf, at::kBFloat16}) {
      SCOPED_TRACE(testing::Message() << config.name << copies);
      optim::CompareAdam(config, copies, device::AdamKernelOn(gpu), gpu, /*tolerance=*/1e-6);
    }
  }
}

}  // namespace
}  // namespace dtrain
