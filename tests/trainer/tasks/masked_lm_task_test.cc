// A step of text does not wait for the device, and asks the same with padding and without.
#include "trainer/tasks/masked_lm_task.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "data/pipeline/device_batch.h"
#include "data/text/dictionary.h"
#include "data/text/masking.h"
#include "data/text/token_rows.h"
#include "tests/waits_for_device.h"
#include "trainer/weights/roberta_model.h"

namespace dtrain::loop {
namespace {

constexpr int64_t kWords = 50, kLongest = 12;

MaskedLmTask TaskOf(bool unpad) {
  config::Config config;
  config.text.tokens_per_sample = kLongest;
  config.text.unpad = unpad;
  const models::RobertaOptions options{.vocab_size = kWords,
                                       .hidden_size = 16,
                                       .layers = 2,
                                       .heads = 2,
                                       .intermediate_size = 32,
                                       .max_positions = kLongest + 2,
                                       .dropout = 0,
                                       .attention_dropout = 0};
  return {MakeRoberta(options, /*seed=*/3, at::kCPU), config, at::kCPU};
}

// Rows of these lengths; every third token of a row is to be guessed.
data::Batch RowsOf(const std::vector<int64_t>& lengths) {
  at::manual_seed(4);
  const auto count = static_cast<int64_t>(lengths.size());
  const at::Tensor ids = at::randint(data::kSpecialTokens, kWords, {count, kLongest}, at::kLong);
  const at::Tensor attended = at::arange(kLongest).unsqueeze(0).lt(at::tensor(lengths, at::kLong).unsqueeze(1));
  const at::Tensor guessed = at::arange(kLongest).remainder(3).eq(1).logical_and(attended);
  data::Batch batch;
  batch.number = 7;
  batch.tensors[data::kInputIds] = ids.masked_fill(attended.logical_not(), data::kPadToken);
  batch.tensors[data::kTokenLabels] = ids.masked_fill(guessed.logical_not(), data::kNoLoss);
  batch.tensors[data::kAttentionMask] = attended.to(at::kByte);
  batch.tensors["index"] = at::arange(count);
  return batch;
}

TEST(MaskedLmTask, AStepDoesNotWaitForTheDevice) {
  for (const bool unpad : {false, true}) {
    for (const auto& lengths : std::vector<std::vector<int64_t>>{{12, 5, 1}, {12, 12}}) {
      MaskedLmTask task = TaskOf(unpad);
      const data::Batch batch = data::CopyToDevice(task.Prepared(RowsOf(lengths)), at::kCPU, nullptr);
      const WaitsForDevice waits;
      task.Loss(batch).loss_sum.backward();
      const at::NoGradGuard no_grad;
      task.EvaluationSums(batch);
      EXPECT_EQ(waits.operators(), std::vector<std::string>{}) << unpad;
    }
  }
}

TEST(MaskedLmTask, PaddingChangesNothingButRounding) {
  MaskedLmTask padded = TaskOf(false), packed = TaskOf(true);
  for (const auto& lengths : std::vector<std::vector<int64_t>>{{12, 5, 1}, {12, 12}, {2}}) {
    const data::Batch rows = RowsOf(lengths);
    const data::Batch with = padded.Prepared(rows), without = packed.Prepared(rows);
    EXPECT_EQ(with.number, 7);
    EXPECT_EQ(without.size(), rows.size());
    const LossSums wanted = padded.Loss(with), result = packed.Loss(without);
    EXPECT_NEAR(result.loss_sum.item<float>(), wanted.loss_sum.item<float>(), 1e-4);
    const auto tokens = rows[data::kAttentionMask].sum().item<int64_t>();
    const auto guessed = rows[data::kTokenLabels].ne(data::kNoLoss).sum().item<int64_t>();
    for (const LossSums& sums : {wanted, result}) {
      EXPECT_EQ(sums.units.item<float>(), static_cast<float>(tokens));
      EXPECT_EQ(sums.weight.item<float>(), static_cast<float>(guessed));
    }
  }
}

TEST(MaskedLmTask, ARandomBatchIsPrepared) {
  MaskedLmTask task = TaskOf(true);
  const data::Batch batch = task.RandomBatch(3);
  EXPECT_EQ(batch.size(), 3);
  EXPECT_TRUE(task.Loss(batch).loss_sum.isfinite().item<bool>());
}

}  // namespace
}  // namespace dtrain::loop
