// What depends on which words are masked; text_task_test.cc tests what holds for all tasks of text.
#include "trainer/tasks/masked_lm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "data/text/masking.h"
#include "data/text/token_rows.h"
#include "tests/small_masked_lm.h"

namespace dtrain::tasks {
namespace {

const models::TextShape kShape{.padding_id = data::kPadToken, .first_position = data::kPadToken + 1};
constexpr SmallMaskedLm kSmall{.words = 50, .longest = 12, .width = 16};

MaskedLmTask TaskOf(bool unpad) { return kSmall.Task(at::kCPU, unpad); }

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
  const at::Tensor logits = task.LogitsOfRows(ids, at::tensor({1, 1, 0, 0, 0, 0}).view({2, 3}).to(at::kBool));
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
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
  const data::Batch more = PreparedText(kSmall.Rows(std::vector<int64_t>(20, 12)), kShape, {}, 0.1);
  EXPECT_EQ(SequencesOf(more).counts.terms.item<double>(), 80);
  EXPECT_EQ(more[kChosen].numel(), 128);
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

}  // namespace
}  // namespace dtrain::tasks
