// A step of a masked language model on the GPU, padded and packed, beside the CPU's: packed sequences go through other
// kernels there, of half types and of float32.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "data/pipeline/device_batch.h"
#include "data/text/dictionary.h"
#include "data/text/masking.h"
#include "data/text/token_rows.h"
#include "trainer/device/device.h"
#include "trainer/tasks/masked_lm_task.h"
#include "trainer/weights/roberta_model.h"

namespace dtrain::loop {
namespace {

constexpr int64_t kWords = 500, kLongest = 40;

data::Batch Rows() {
  at::manual_seed(4);
  const std::vector<int64_t> lengths = {40, 1, 17, 33, 8};
  const auto count = static_cast<int64_t>(lengths.size());
  const at::Tensor ids = at::randint(data::kSpecialTokens, kWords, {count, kLongest}, at::kLong);
  const at::Tensor attended = at::arange(kLongest).unsqueeze(0).lt(at::tensor(lengths, at::kLong).unsqueeze(1));
  const at::Tensor guessed = at::arange(kLongest).remainder(4).eq(0).logical_and(attended);
  data::Batch batch;
  batch.tensors[data::kInputIds] = ids.masked_fill(attended.logical_not(), data::kPadToken);
  batch.tensors[data::kTokenLabels] = ids.masked_fill(guessed.logical_not(), data::kNoLoss);
  batch.tensors[data::kAttentionMask] = attended.to(at::kByte);
  batch.tensors["index"] = at::arange(count);
  return batch;
}

struct Computed {
  double loss;
  std::vector<at::Tensor> gradients;
};

Computed Compute(at::Device device, const std::string& precision, bool unpad) {
  config::Config config;
  config.text.tokens_per_sample = kLongest;
  config.text.unpad = unpad;
  config.precision.name = precision;
  const models::RobertaOptions options{.vocab_size = kWords,
                                       .hidden_size = 128,
                                       .layers = 2,
                                       .heads = 2,
                                       .intermediate_size = 256,
                                       .max_positions = kLongest + 2,
                                       .dropout = 0,
                                       .attention_dropout = 0};
  MaskedLmTask task(MakeRoberta(options, /*seed=*/3, device), config, device);
  const data::Batch batch = data::CopyToDevice(task.Prepared(Rows()), device, /*decoder=*/nullptr);
  const LossSums sums = task.Loss(batch);
  sums.loss_sum.backward();
  Computed computed{sums.loss_sum.item<double>(), {}};
  for (const at::Tensor& parameter : task.module().parameters()) computed.gradients.push_back(parameter.grad().cpu());
  return computed;
}

TEST(MaskedLm, StepsAreThoseOfTheCpu) {
  const at::Device gpu = distributed::DeviceOf(launch::Launch{}, "nccl");
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

}  // namespace
}  // namespace dtrain::loop
