// A training step of text must not wait for the device, and gives the same with padding and without.
#include "trainer/tasks/masked_lm_task.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "data/pipeline/device_feed.h"
#include "data/text/masking.h"
#include "data/text/token_rows.h"
#include "models/registry.h"
#include "tests/small_masked_lm.h"
#include "tests/step_operators.h"

namespace dtrain::tasks {
namespace {

const models::TextShape kShape{.padding_id = data::kPadToken, .first_position = data::kPadToken + 1};
constexpr SmallMaskedLm kSmall{.words = 50, .longest = 12, .width = 16};

MaskedLmTask TaskOf(bool unpad) { return kSmall.Task(at::kCPU, unpad); }

TEST(MaskedLmTask, AStepDoesNotWaitForTheDevice) {
  for (const bool unpad : {false, true}) {
    for (const auto& lengths : std::vector<std::vector<int64_t>>{{12, 5, 1}, {12, 12}}) {
      MaskedLmTask task = TaskOf(unpad);
      const data::Batch host = task.Prepared(kSmall.Rows(lengths)), batch = data::CopyToDevice(host, at::kCPU);
      const StepOperators operators(host);
      task.Loss(batch).loss_sum.backward();
      const at::NoGradGuard no_grad;
      task.EvaluationSums(batch);
      EXPECT_EQ(operators.forbidden(), std::set<std::string>{}) << unpad;
      EXPECT_EQ(operators.PoolsMaxima(), models::FamilyOf("roberta").pools_maxima);
    }
  }
}

TEST(MaskedLmTask, PaddingChangesNothingButRounding) {
  MaskedLmTask padded = TaskOf(false), packed = TaskOf(true);
  for (const auto& lengths : std::vector<std::vector<int64_t>>{{12, 5, 1}, {12, 12}, {2}}) {
    const data::Batch rows = kSmall.Rows(lengths);
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

// A row without a token adds nothing to the loss and its gradients, in any company.
TEST(MaskedLmTask, RowsWithoutATokenTeachNothing) {
  const auto step = [](MaskedLmTask& task, const std::vector<int64_t>& lengths) {
    const LossSums sums = task.Loss(task.Prepared(kSmall.Rows(lengths)));
    sums.loss_sum.backward();
    double norm = 0;
    for (const at::Tensor& weight : task.module().parameters()) {
      if (weight.grad().defined()) norm += weight.grad().square().sum().item<double>();
    }
    const at::NoGradGuard no_grad;
    const at::Tensor counted = task.EvaluationSums(task.Prepared(kSmall.Rows(lengths)));
    report::TextCounts counts;
    task.AddCounts(counted, counts);
    EXPECT_EQ(static_cast<double>(counts.empty_samples), sums.empty.item<double>());
    EXPECT_EQ(static_cast<double>(counts.guessed), sums.weight.item<double>());
    return std::vector<double>{sums.loss_sum.item<double>(), sums.weight.item<double>(), sums.units.item<double>(),
                               sums.empty.item<double>(), norm};
  };
  for (const bool unpad : {false, true}) {
    MaskedLmTask task = TaskOf(unpad);
    EXPECT_EQ(step(task, {0, 0, 0}), (std::vector<double>{0, 0, 0, 3, 0})) << unpad;
    MaskedLmTask with = TaskOf(unpad), without = TaskOf(unpad);
    const std::vector<double> wanted = step(without, {12, 5}), result = step(with, {12, 5, 0});
    EXPECT_NEAR(result[0], wanted[0], 1e-4);
    EXPECT_NEAR(result[4], wanted[4], 1e-4 * wanted[4]);
    EXPECT_EQ(std::vector(result.begin() + 1, result.begin() + 4), (std::vector{wanted[1], wanted[2], 1.0}));
  }
  MaskedLmTask task = TaskOf(false);
  const at::Tensor ids = at::full({2, 3}, 7, at::kLong);
  const at::Tensor logits = task.Logits(ids, at::tensor({1, 1, 0, 0, 0, 0}).view({2, 3}).to(at::kBool));
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
  EXPECT_EQ(logits[1].abs().sum().item<double>(), 0);
}

// Returns all that a step finds: sums, an evaluation's sums and gradients.
std::vector<at::Tensor> StepOn(const data::Batch& batch) {
  MaskedLmTask task = TaskOf(false);
  const LossSums sums = task.Loss(batch);
  sums.loss_sum.backward();
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> found = {sums.loss_sum, sums.weight, sums.units, sums.empty, task.EvaluationSums(batch)};
  for (const at::Tensor& weight : task.module().parameters()) found.push_back(weight.grad());
  return found;
}

// On a GPU the list of tokens to be guessed is filled up, so that batches of one shape share a step graph.
TEST(MaskedLmTask, RoomChangesNothingButRounding) {
  for (const auto& lengths : std::vector<std::vector<int64_t>>{{12, 5, 1}, {12, 12}, {0, 1}, {1}}) {
    const data::Batch rows = kSmall.Rows(lengths);
    const std::vector<at::Tensor> wanted = StepOn(PreparedText(rows, kShape, {}));
    for (const double share : {0.01, 0.5, 5.0}) {
      const std::vector<at::Tensor> result = StepOn(PreparedText(rows, kShape, {}, share));
      for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::allclose(result[i], wanted[i], 1e-4, 1e-6)) << i;
    }
  }
  EXPECT_EQ(RoomFor(0), 0);
  EXPECT_EQ(RoomFor(1), 64);
  EXPECT_EQ(RoomFor(64), 64);
  const data::Batch more = PreparedText(kSmall.Rows(std::vector<int64_t>(20, 12)), kShape, {}, 0.1);
  EXPECT_EQ(TextOf(more).guessed, 80);
  EXPECT_EQ(TextOf(more).chosen.numel(), 128);
}

// So is the list of tokens without padding. Nothing depends on what the fillers are: other words in them leave all
// bits.
TEST(MaskedLmTask, FillersChangeNothingButRounding) {
  constexpr double kShare = 0.2;
  for (const auto& lengths : std::vector<std::vector<int64_t>>{{12, 5, 1}, {12, 12}, {0, 1}, {1}, {12, 12, 12, 9, 2}}) {
    const data::Batch rows = kSmall.Rows(lengths);
    const std::vector<at::Tensor> wanted = StepOn(PreparedText(rows, kShape, {.unpad = true}));
    data::Batch filled = PreparedText(rows, kShape, {.unpad = true, .most_tokens = kSmall.longest}, kShare);
    const std::vector<at::Tensor> result = StepOn(filled);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::allclose(result[i], wanted[i], 1e-4, 1e-6)) << i;
    const SequenceBatch batch = SequencesOf(filled);
    EXPECT_GT(batch.sequences.fillers, 0);
    EXPECT_EQ(batch.sequences.ids.numel() % 8, 0);
    EXPECT_EQ(batch.counts.padding.item<int64_t>(), batch.sequences.ids.numel() - batch.tokens);
    int64_t fillers = 0;
    for (int64_t i = 0; i < batch.sequences.fillers; ++i) fillers += *(batch.sequences.lengths.rbegin() + i);
    filled[kPreparedIds].slice(0, -fillers).fill_(data::kSpecialTokens + 1);
    const std::vector<at::Tensor> other = StepOn(filled);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::equal(other[i], result[i])) << i;
  }
}

TEST(MaskedLmTask, StepsCanBeRecorded) {
  EXPECT_EQ(TaskOf(false).WhyNotRecorded(), "");
  EXPECT_EQ(TaskOf(true).WhyNotRecorded(), "");
}

TEST(MaskedLmTask, ARandomBatchIsPrepared) {
  MaskedLmTask task = TaskOf(true);
  const data::Batch batch = task.RandomBatch(3);
  EXPECT_EQ(batch.size(), 3);
  EXPECT_TRUE(task.Loss(batch).loss_sum.isfinite().item<bool>());
}

}  // namespace
}  // namespace dtrain::tasks
