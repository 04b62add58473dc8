// Compares a step of a masked language model on the GPU, padded and packed, with the CPU's. Packed sequences use other
// kernels there, for half types and for float32.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/pipeline/device_feed.h"
#include "models/sequences.h"
#include "tests/small_masked_lm.h"
#include "trainer/device/device.h"
#include "trainer/tasks/predictions.h"

namespace dtrain::tasks {
namespace {

constexpr SmallMaskedLm kSmall{.words = 500, .longest = 40, .width = 128};

struct Computed {
  double loss;
  std::vector<at::Tensor> gradients;
};

Computed Compute(at::Device device, const std::string& precision, bool unpad) {
  MaskedLmTask task = kSmall.Task(device, unpad, precision);
  const data::Batch batch = data::CopyToDevice(task.Prepared(kSmall.Rows({40, 1, 17, 33, 8})), device);
  const LossSums sums = task.Loss(batch);
  sums.loss_sum.backward();
  Computed computed{sums.loss_sum.item<double>(), {}};
  for (const at::Tensor& parameter : task.module().parameters()) computed.gradients.push_back(parameter.grad().cpu());
  return computed;
}

TEST(MaskedLm, StepsAreThoseOfTheCpu) {
  const at::Device gpu = device::DeviceOf(launch::Launch{}, "nccl");
  const Computed wanted = Compute(at::kCPU, "fp32", /*unpad=*/false);
  for (const std::string precision : {"fp32", "bf16", "fp16"}) {
    for (const bool unpad : {false, true}) {
      SCOPED_TRACE(precision + (unpad ? ", packed" : ", padded"));
      const double tolerance = precision == "fp32" ? 1e-3 : 5e-2;
      const Computed result = Compute(gpu, precision, unpad);
      EXPECT_NEAR(result.loss, wanted.loss, tolerance * wanted.loss);
      for (size_t i = 0; i < wanted.gradients.size(); ++i) {
        const double norm = wanted.gradients[i].norm().item<double>();
        EXPECT_LE((result.gradients[i] - wanted.gradients[i]).norm().item<double>(), tolerance * norm + 1e-4) << i;
      }
    }
  }
}

// Before Ampere packed sequences in half precision take the other kernel.
TEST(Attend, BothKernelsForPackedSequencesAgree) {
  const at::Device gpu = device::DeviceOf(launch::Launch{}, "nccl");
  constexpr int64_t kHeads = 2, kHidden = 128;
  at::manual_seed(8);
  const at::Tensor ids = at::ones({3, 40}, at::kLong);
  const at::Tensor attended = at::arange(40).unsqueeze(0).lt(at::tensor({40, 3, 17}).unsqueeze(1));
  const models::Sequences sequences = models::Packed(ids, attended, models::TextShape{.padding_id = 1}).To(gpu);
  const at::Tensor values = at::randn({3, 60, kHidden}), gradient = at::randn({60, kHidden}).to(gpu);
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    std::vector<at::Tensor> results[2];
    for (const bool flash : {false, true}) {
      std::vector<at::Tensor> qkv;
      for (int64_t i = 0; i < 3; ++i) qkv.push_back(values[i].to(gpu).to(type).requires_grad_());
      const at::Tensor y = models::AttendPackedOnGpu(qkv[0], qkv[1], qkv[2], kHeads, sequences, /*dropout=*/0, flash);
      y.backward(gradient.to(type));
      results[flash] = {y.detach(), qkv[0].grad(), qkv[1].grad(), qkv[2].grad()};
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      const at::Tensor wanted = results[1][i].to(at::kFloat);
      EXPECT_LE((results[0][i].to(at::kFloat) - wanted).norm().item<double>(), 2e-2 * wanted.norm().item<double>());
    }
  }
}

// Without padding, a window goes to the kernel that computes nothing outside of it.
TEST(Attend, WindowsOfPaddedSequencesAreThoseOfTheMask) {
  const at::Device gpu = device::DeviceOf(launch::Launch{}, "nccl");
  constexpr int64_t kHeads = 2, kHidden = 128, kWindow = 5;
  at::manual_seed(9);
  const at::Tensor ids = at::ones({3, 40}, at::kLong);
  const models::TextShape shape{.padding_id = 1};
  const models::Sequences sequences[] = {models::Padded(ids, {}, shape).To(gpu),
                                         models::Padded(ids, at::ones_like(ids, at::kBool), shape).To(gpu)};
  const at::Tensor values = at::randn({3, 120, kHidden}), gradient = at::randn({120, kHidden}).to(gpu);
  std::vector<at::Tensor> results[2];
  for (size_t i = 0; i < 2; ++i) {
    std::vector<at::Tensor> qkv;
    for (int64_t k = 0; k < 3; ++k) qkv.push_back(values[k].to(gpu).to(at::kBFloat16).requires_grad_());
    const at::Tensor y = models::Attend(qkv[0], qkv[1], qkv[2], kHeads, sequences[i], /*dropout=*/0, kWindow);
    y.backward(gradient.to(at::kBFloat16));
    results[i] = {y.detach(), qkv[0].grad(), qkv[1].grad(), qkv[2].grad()};
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    const at::Tensor wanted = results[1][i].to(at::kFloat);
    EXPECT_LE((results[0][i].to(at::kFloat) - wanted).norm().item<double>(), 2e-2 * wanted.norm().item<double>()) << i;
  }
}

// The index of a batch stays on the host.
TEST(SampleResults, TakeWhatTheGpuHasFound) {
  const at::Device gpu = device::DeviceOf(launch::Launch{}, "nccl");
  for (const int64_t classes : {int64_t{0}, int64_t{2}, int64_t{20}}) {
    const Outcome outcome{.labels = classes > 0 ? data::LabelKind::kClass : data::LabelKind::kNumbers,
                          .outputs = std::max<int64_t>(1, classes)};
    SampleResults results(/*rows=*/3, outcome, gpu);
    const at::Tensor outputs = at::rand({2, std::max<int64_t>(1, classes)}, at::TensorOptions(gpu));
    const at::Tensor targets = at::ones({2}, at::TensorOptions(gpu).dtype(classes > 0 ? at::kLong : at::kFloat));
    EXPECT_NO_THROW(results.Add({at::tensor({2, 0}, at::kLong), outputs, targets})) << classes;
  }
}

}  // namespace
}  // namespace dtrain::tasks
