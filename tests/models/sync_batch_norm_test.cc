// One batch that is cut in two, with sums added between the halves, must give BatchNorm's result for the whole.
#include "models/sync_batch_norm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "models/layers.h"
#include "tests/models/norm_stand_in.h"

namespace dtrain::models {
namespace {

// Runs two ranks as two threads. Each sum waits for the other rank's.
class TwoRanks {
 public:
  SumOverRanks SumOf(int rank) {
    return [this, rank](at::Tensor& tensor) {
      parts_[rank] = tensor.clone();
      barrier_.arrive_and_wait();
      tensor.copy_(parts_[0] + parts_[1]);
      barrier_.arrive_and_wait();
    };
  }

 private:
  std::barrier<> barrier_{2};
  at::Tensor parts_[2];
};

struct Gradients {
  at::Tensor output, dx, dweight, dbias, running_mean, running_var, batches;
};

// With a `sum`, this is one of two ranks.
Gradients RunNorm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& slope,
                  const SumOverRanks& sum, bool with_kernels, bool excites) {
  const at::Tensor own_x = x.clone().requires_grad_();
  BatchNorm2d norm(weight.size(0));
  norm->weight.set_data(weight.clone());
  norm->bias.set_data(bias.clone());
  if (sum) norm->Synchronize(sum);
  if (with_kernels) norm->UseKernels(stand_in::kKernels);
  const at::Tensor output = excites
                                ? norm->SqueezeExcite(own_x, [](const at::Tensor& means) { return means.sigmoid(); })
                                : norm->forward(own_x);
  (output.sigmoid() * slope).sum().backward();
  return {output.detach(),    own_x.grad(),      norm->weight.grad(),      norm->bias.grad(),
          norm->running_mean, norm->running_var, norm->num_batches_tracked};
}

TEST(SyncBatchNorm, HalvesMatchTheWhole) {
  at::manual_seed(1);
  const at::Tensor x = (at::randn({10, 8, 5, 4}) * 3 + 7).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor slope = at::randn_like(x), weight = at::rand({8}) + 0.5, bias = at::randn({8});
  const std::vector<int64_t> sizes = {3, 7};  // ranks may hold unequal batches
  const auto xs = x.split_with_sizes(sizes), slopes = slope.split_with_sizes(sizes);
  for (const auto& [with_kernels, excites] : {std::pair{false, false}, {true, false}, {true, true}}) {
    const Gradients whole = RunNorm(x, weight, bias, slope, nullptr, /*with_kernels=*/false, excites);
    TwoRanks ranks;
    Gradients halves[2];
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < 2; ++rank) {
        threads.emplace_back([&, rank, with = with_kernels, excited = excites] {
          halves[rank] = RunNorm(xs[rank], weight, bias, slopes[rank], ranks.SumOf(rank), with, excited);
        });
      }
    }
    EXPECT_TRUE(at::allclose(at::cat({halves[0].output, halves[1].output}), whole.output, 1e-5, 1e-5));
    EXPECT_TRUE(at::allclose(at::cat({halves[0].dx, halves[1].dx}), whole.dx, 1e-4, 1e-6));
    EXPECT_TRUE(at::allclose(halves[0].dweight + halves[1].dweight, whole.dweight, 1e-4, 1e-5));
    EXPECT_TRUE(at::allclose(halves[0].dbias + halves[1].dbias, whole.dbias, 1e-4, 1e-5));
    for (const Gradients& half : halves) {
      EXPECT_TRUE(at::allclose(half.running_mean, whole.running_mean, 1e-5, 1e-6));
      EXPECT_TRUE(at::allclose(half.running_var, whole.running_var, 1e-5, 1e-6));
      EXPECT_EQ(half.batches.item<int64_t>(), 1);
    }
  }
}

}  // namespace
}  // namespace dtrain::models
