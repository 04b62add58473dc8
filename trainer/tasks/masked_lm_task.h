// Masked language modelling: the loss is the cross entropy of the tokens that are to be guessed.
#pragma once

#include <memory>
#include <string>

#include "models/roberta.h"
#include "trainer/config/config.h"
#include "trainer/tasks/masked_lm_batch.h"
#include "trainer/tasks/task.h"

namespace dtrain::tasks {

class MaskedLmTask : public Task {
 public:
  MaskedLmTask(std::shared_ptr<models::RobertaForMaskedLM> model, const config::Config& config, at::Device device);

  torch::nn::Module& module() override { return *model_; }
  at::Device device() const override { return device_; }
  // Takes batches in the form of data/text/token_rows.h.
  data::Batch Prepared(data::Batch batch) const override;
  // The weight is the number of tokens to be guessed.
  LossSums Loss(const data::Batch& batch) override;
  double NominalWeight(int64_t samples) const override;
  bool weight_varies() const override { return true; }
  report::SpeedUnit speed_unit() const override { return report::SpeedUnit::kTokens; }
  bool has_perplexity() const override { return true; }
  std::string WhyNotRecorded() const override;
  models::ForwardCost CostOfSample() const override;
  data::Batch RandomBatch(int64_t samples) const override;
  at::Tensor EvaluationSums(const data::Batch& batch) override;
  int64_t num_evaluation_sums() const override { return 5; }
  report::Metrics MetricsOf(const at::Tensor& sums) const override;
  void AddCounts(const at::Tensor& sums, report::TextCounts& counts) const override;

  // `ids_NT` is int64, `attended_NT` bool (undefined: every token but <pad> is attended). Returns logits, float32
  // N×T×vocabulary on the device; zeros for a row that has no token.
  at::Tensor Logits(const at::Tensor& ids_NT, const at::Tensor& attended_NT);

 private:
  // Returns the logits of the chosen tokens, in the type of products.
  at::Tensor Guess(const MaskedLmBatch& batch);

  std::shared_ptr<models::RobertaForMaskedLM> model_;
  std::string precision_;
  int64_t longest_;  // --tokens_per_sample
  TokenLayout layout_;
  double mask_prob_;
  double expected_share_;  // weight of one sample in NominalWeight
  at::Device device_;
  const models::TextKernels* kernels_;  // null for the CPU
};

}  // namespace dtrain::tasks
