// Masked language modelling: the loss is the cross entropy of the tokens that are to be guessed.
#pragma once

#include <cstdint>
#include <memory>

#include "data/pipeline/batch.h"
#include "models/text_kernels.h"
#include "models/text_model.h"
#include "trainer/config/config.h"
#include "trainer/tasks/text_task.h"

namespace dtrain::tasks {

// In prepared batches, and on the device: the places, in the list of tokens, of those to be guessed, which are the
// terms of the loss, and the right token for each of them, or data::kNoLoss. int64.
inline constexpr char kChosen[] = "chosen", kAnswers[] = "answers";

// Turns `rows`, which are on the host and in the form of data/text/token_rows.h, into a batch with the tensors of a
// SequenceBatch, `chosen` and `answers`. The latter are filled up with places without a loss to a multiple of 64 that
// has room for this share of the list and one for each row, or for more if the batch has more to guess. So their size
// depends on the shape alone: a row of n tokens has at most share·n + 1 to guess (masking.h), and more only if whole
// words are masked. `share` is 0: they are not filled up.
data::Batch PreparedText(data::Batch rows, const models::TextShape& shape, const TokenLayout& layout, double share = 0);

class MaskedLmTask : public TextTask {
 public:
  MaskedLmTask(std::shared_ptr<models::TextModel> model, const config::Config& config, at::Device device);

  double NominalWeight(int64_t samples) const override;
  bool has_perplexity() const override { return true; }
  models::ForwardCost CostOfSample() const override { return model().Cost(longest(), longest(), NumChosen()); }
  bool ObserveOutputs(OutputsObserver /*observer*/) override { return false; }
  report::Metrics MetricsOf(const at::Tensor& sums) const override;

  // Returns the logits of the chosen tokens, in the type of products.
  at::Tensor Logits(const data::Batch& batch) override;
  // `ids_NT` is int64, `attended_NT` bool, `types_NT` int64 or undefined. Returns logits, float32 N×T×vocabulary on the
  // device; finite ones also for a row that has no token.
  at::Tensor LogitsOfRows(const at::Tensor& ids_NT, const at::Tensor& attended_NT, const at::Tensor& types_NT = {});

 protected:
  data::Batch PreparedTensors(data::Batch batch) const override;
  at::Tensor LossSum(const at::Tensor& logits, const data::Batch& batch, bool training) const override;
  const char* target_name() const override;
  void AddRandomLabels(data::Batch& batch, int64_t samples) const override;
  int64_t num_own_sums() const override { return 1; }  // of the tokens that were guessed right
  void AddTo(at::Tensor own, const at::Tensor& logits, const data::Batch& batch) const override;
  report::Metrics OwnMetrics(const double* own, double guessed) const override;

 private:
  // The number of tokens to be guessed that a training sample has on average.
  int64_t NumChosen() const { return static_cast<int64_t>(mask_prob_ * static_cast<double>(longest())); }

  double mask_prob_;
  double expected_share_;               // weight of one sample in NominalWeight
  const models::TextKernels* kernels_;  // null for the CPU
};

}  // namespace dtrain::tasks
