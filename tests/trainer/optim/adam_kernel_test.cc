// Runs the threads of Adam's kernel in loops, and compares with ATen's kernel for the CPU.
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "tests/trainer/optim/adam_comparison.h"

namespace dtrain::optim {
namespace {

template <typename Copy>
void RunThreads(const kernels::AdamArguments& arguments) {
  for (unsigned block = 0; block < arguments.first_block[arguments.count]; ++block) {
    for (int thread = 0; thread < kernels::kAdamThreads; ++thread) {
      kernels::AdamThread<Copy>(arguments, block, thread);
    }
  }
}

void AdamOnCpu(const kernels::AdamArguments& arguments, models::kernels::Element copies) {
  using models::kernels::Element;
  if (copies == Element::kFloat) return RunThreads<float>(arguments);
  if (copies == Element::kHalf) return RunThreads<c10::Half>(arguments);
  RunThreads<c10::BFloat16>(arguments);
}

// In float32, in which the kernel computes, 1 − 0.999 has lost some digits. ATen computes it otherwise on the CPU.
constexpr double kAdamTolerance = 5e-5;

TEST(AdamKernel, StepsAreAtens) {
  for (const config::OptimizerConfig& config : AdamCases()) {
    for (const at::ScalarType copies : {at::kFloat, at::kHalf, at::kBFloat16}) {
      SCOPED_TRACE(testing::Message() << config.name << copies);
      CompareAdam(config, copies, &AdamOnCpu, at::kCPU, kAdamTolerance);
    }
  }
}

}  // namespace
}  // namespace dtrain::optim
