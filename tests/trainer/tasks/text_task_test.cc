// A training step of text must not wait for the device, and gives the same with padding and without. The metrics are
// those of all samples, in whatever batches and on whatever ranks they were evaluated.
#include "trainer/tasks/text_task.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "data/formats/raw_rows.h"
#include "data/pipeline/device_feed.h"
#include "data/text/dictionary.h"
#include "data/text/masking.h"
#include "data/text/token_rows.h"
#include "models/registry.h"
#include "tests/modernbert.h"
#include "tests/roberta.h"
#include "tests/small_masked_lm.h"
#include "tests/step_operators.h"

namespace dtrain::tasks {
namespace {

constexpr int64_t kWords = 50, kLongest = 12, kSentenceClasses = 3;
constexpr SmallMaskedLm kSmallWords{.words = kWords, .longest = kLongest, .width = 16};

template <typename TaskType>
TaskType TaskOf(bool unpad, double label_smoothing = 0) {
  if constexpr (std::is_same_v<TaskType, MaskedLmTask>) return kSmallWords.Task(at::kCPU, unpad);
  config::Config config;
  config.text.tokens_per_sample = kLongest;
  config.text.unpad = unpad;
  config.optimizer.label_smoothing = label_smoothing;
  const bool regression = std::is_same_v<TaskType, TextRegressionTask>;
  models::EncoderOptions options{
      {.vocab_size = kWords, .hidden_size = 16, .longest_sequence = kLongest, .dropout = 0, .attention_dropout = 0},
      /*layers=*/2,
      /*heads=*/2,
      /*intermediate_size=*/32};
  options.initializer_range = 0.5;
  at::manual_seed(3);
  return {std::make_shared<models::RobertaForSequenceClassification>(options, regression ? 1 : kSentenceClasses,
                                                                     /*classifier_dropout=*/0),
          config, at::kCPU};
}

data::Batch Rows(const std::vector<int64_t>& lengths) {
  data::Batch batch = kSmallWords.Rows(lengths);
  const at::Tensor number = at::arange(static_cast<int64_t>(lengths.size()));
  batch.tensors[data::kSentenceLabels] = number.remainder(kSentenceClasses);
  batch.tensors[data::kSentenceTargets] = number.to(at::kFloat).sqrt();
  return batch;
}

// Labels of words and of sentences have the same name.
template <typename TaskType>
data::Batch RowsFor(const std::vector<int64_t>& lengths) {
  return std::is_same_v<TaskType, MaskedLmTask> ? kSmallWords.Rows(lengths) : Rows(lengths);
}

// Of which a task only asks the size.
DataSplit SplitOf(int64_t samples) {
  return {.name = "val", .source = std::make_unique<data::Synthetic>(samples, 1, 1, 1), .decoder = nullptr};
}

data::Batch Part(const data::Batch& batch, const std::vector<int64_t>& rows) {
  data::Batch part;
  for (const auto& [name, tensor] : batch.tensors) part.tensors[name] = tensor.index_select(0, at::tensor(rows));
  return part;
}

template <typename TaskType>
class TextTasks : public testing::Test {};
using AllTasks = testing::Types<MaskedLmTask, TextClassificationTask, TextRegressionTask>;
TYPED_TEST_SUITE(TextTasks, AllTasks);

TYPED_TEST(TextTasks, AStepDoesNotWaitForTheDevice) {
  for (const bool unpad : {false, true}) {
    auto task = TaskOf<TypeParam>(unpad);
    task.BeginEvaluation(SplitOf(3));
    const data::Batch host = task.Prepared(RowsFor<TypeParam>({12, 5, 2})), batch = data::CopyToDevice(host, at::kCPU);
    const StepOperators operators(host);
    task.Loss(batch).loss_sum.backward();
    const at::NoGradGuard no_grad;
    task.EvaluationSums(batch);
    EXPECT_EQ(operators.forbidden(), std::set<std::string>{}) << unpad;
    EXPECT_EQ(operators.PoolsMaxima(), models::FamilyOf("roberta").pools_maxima);
  }
}

TYPED_TEST(TextTasks, PaddingChangesNothingButRounding) {
  auto padded = TaskOf<TypeParam>(false), packed = TaskOf<TypeParam>(true);
  for (const auto& lengths : std::vector<std::vector<int64_t>>{{12, 5, 2}, {12, 12}, {3}}) {
    const data::Batch rows = RowsFor<TypeParam>(lengths), with = padded.Prepared(rows), without = packed.Prepared(rows);
    EXPECT_EQ(with.number, 7);
    EXPECT_EQ(without.size(), rows.size());
    const bool guesses = std::is_same_v<TypeParam, MaskedLmTask>;
    const auto terms =
        guesses ? rows[data::kTokenLabels].ne(data::kNoLoss).sum().template item<int64_t>() : rows.size();
    const LossSums wanted = padded.Loss(with), result = packed.Loss(without);
    EXPECT_NEAR(result.loss_sum.template item<float>(), wanted.loss_sum.template item<float>(), 1e-4);
    for (const LossSums& sums : {wanted, result}) {
      EXPECT_EQ(sums.weight.item<float>(), static_cast<float>(terms));
      EXPECT_EQ(sums.units.item<float>(), static_cast<float>(std::accumulate(lengths.begin(), lengths.end(), 0)));
    }
    EXPECT_EQ(result.padding.template item<float>(), 0);
  }
}

TYPED_TEST(TextTasks, MetricsAreThoseOfAllSamplesInAnyBatches) {
  auto task = TaskOf<TypeParam>(false);
  task.module().eval();
  const at::NoGradGuard no_grad;
  task.BeginEvaluation(SplitOf(6));
  const data::Batch all = RowsFor<TypeParam>({12, 5, 2, 7, 3, 4});
  const report::Metrics wanted = task.MetricsOf(task.EvaluationSums(task.Prepared(all)));
  at::Tensor sums = task.EvaluationSums(task.Prepared(Part(all, {4, 1})));
  sums += task.EvaluationSums(task.Prepared(Part(all, {0, 5, 2, 3})));
  const report::Metrics found = task.MetricsOf(sums);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(found[i].name, wanted[i].name);
    EXPECT_NEAR(found[i].value, wanted[i].value, 1e-5 * std::max(1.0, std::abs(wanted[i].value))) << found[i].name;
    EXPECT_TRUE(std::isfinite(found[i].value)) << found[i].name;
  }
  // A sample that was left out does not count.
  auto fewer = TaskOf<TypeParam>(false);
  fewer.module().eval();
  fewer.BeginEvaluation(SplitOf(2));
  const data::Batch two = Part(all, {0, 1});
  task.BeginEvaluation(SplitOf(6));
  const auto with_gaps = task.MetricsOf(task.EvaluationSums(task.Prepared(two)));
  EXPECT_EQ(with_gaps, fewer.MetricsOf(fewer.EvaluationSums(fewer.Prepared(two))));
}

TYPED_TEST(TextTasks, ARandomBatchIsPrepared) {
  auto task = TaskOf<TypeParam>(true);
  const data::Batch batch = task.RandomBatch(3);
  EXPECT_EQ(batch.size(), 3);
  EXPECT_EQ(task.Loss(batch).units.template item<float>(), 3 * kLongest);
  EXPECT_EQ(task.WhyNotRecorded(), "");
}

TEST(MaskedLmTask, WindowsThatTakeLengthsFromTheHostAreNotRecorded) {
  const auto why = [](bool unpad) {
    config::Config config;
    config.text.unpad = unpad;
    return MaskedLmTask(models::SmallModernBert(kWords, kLongest, 0), config, at::kCPU).WhyNotRecorded();
  };
  EXPECT_THAT(why(true), testing::HasSubstr("--unpad"));
  EXPECT_EQ(why(false), "");
}

TEST(TextClassificationTask, TheLossOfAnEvaluationIsNotSmoothed) {
  auto plain = TaskOf<TextClassificationTask>(false), smoothed = TaskOf<TextClassificationTask>(false, 0.3);
  const data::Batch batch = plain.Prepared(Rows({12, 5, 2, 7}));
  const at::NoGradGuard no_grad;
  EXPECT_NE(plain.Loss(batch).loss_sum.item<float>(), smoothed.Loss(batch).loss_sum.item<float>());
  EXPECT_TRUE(plain.EvaluationSums(batch).equal(smoothed.EvaluationSums(batch)));
}

TEST(TextClassificationTask, ConfusionsHaveARowForEachTrueClass) {
  auto task = TaskOf<TextClassificationTask>(false);
  const data::Batch batch = task.Prepared(Rows({12, 5, 2, 7}));  // labels 0, 1, 2, 0
  const at::NoGradGuard no_grad;
  EXPECT_EQ(task.ConfusionsOf(task.EvaluationSums(batch)), std::vector<int64_t>{});
  const report::Metrics before = task.MetricsOf(task.EvaluationSums(batch));
  task.CountConfusions();
  const std::vector<int64_t> counts = task.ConfusionsOf(task.EvaluationSums(batch));
  ASSERT_EQ(counts.size(), 9U);
  for (size_t label = 0; label < 3; ++label) {
    EXPECT_EQ(counts[3 * label] + counts[3 * label + 1] + counts[3 * label + 2], label == 0 ? 2 : 1);
  }
  report::Metrics metrics = task.MetricsOf(task.EvaluationSums(batch));
  ASSERT_EQ(metrics.size(), before.size() + 1);
  EXPECT_EQ(metrics.back().name, "balanced_accuracy");
  metrics.resize(before.size());
  EXPECT_EQ(metrics, before);
}

}  // namespace
}  // namespace dtrain::tasks
