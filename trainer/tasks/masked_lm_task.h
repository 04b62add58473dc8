// Masked language modelling: the loss is the cross entropy of the tokens that are to be guessed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/pipeline/batch.h"
#include "models/text_model.h"
#include "trainer/config/config.h"
#include "trainer/optim/precision.h"
#include "trainer/tasks/sequence_batch.h"
#include "trainer/tasks/task.h"

namespace dtrain::tasks {

// A batch for masked language modelling: its sequences, and which of their tokens are to be guessed: the terms of the
// loss.
struct MaskedLmBatch : SequenceBatch {
  at::Tensor chosen;    // int64: the places, in the list of tokens, of those to be guessed
  at::Tensor answers;   // int64: the right token for each of `chosen`, or data::kNoLoss
  int64_t guessed = 0;  // answers other than kNoLoss
};

// Turns `rows`, which are on the host and in the form of data/text/token_rows.h, into a batch with the tensors of a
// MaskedLmBatch, in pinned memory if those of `rows` are. `chosen` and `answers` are filled up with places without a
// loss to RoomFor(this share of the list, and one for each row), or to a multiple of kRoomMultiple if the batch has
// more to guess. So their size depends on the shape alone: a row of n tokens has at most share·n + 1 to guess
// (masking.h), and more only if whole words are masked. `share` is 0: they are not filled up.
data::Batch PreparedText(data::Batch rows, const models::TextShape& shape, const TokenLayout& layout, double share = 0);

inline constexpr int64_t kRoomMultiple = 64;

// Returns the smallest multiple of kRoomMultiple that is at least `places`.
int64_t RoomFor(int64_t places);

// Views a batch that PreparedText has returned, and that may have been copied to a device since. Copies nothing, and
// does not wait for the device.
MaskedLmBatch TextOf(const data::Batch& prepared);

class MaskedLmTask : public Task {
 public:
  MaskedLmTask(std::shared_ptr<models::TextModel> model, const config::Config& config, at::Device device);

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

  // `ids_NT` is int64, `attended_NT` bool (undefined: every token but <pad> is attended), `types_NT` int64 or
  // undefined. Returns logits, float32 N×T×vocabulary on the device; zeros for a row that has no token.
  at::Tensor Logits(const at::Tensor& ids_NT, const at::Tensor& attended_NT, const at::Tensor& types_NT = {});

 private:
  // Returns the logits of the chosen tokens, in the type of products.
  at::Tensor Guess(const MaskedLmBatch& batch);

  std::shared_ptr<models::TextModel> model_;
  const optim::Precision& precision_;
  int64_t longest_;  // --tokens_per_sample
  TokenLayout layout_;
  double mask_prob_;
  double expected_share_;  // weight of one sample in NominalWeight
  at::Device device_;
  const models::TextKernels* kernels_;  // null for the CPU
};

}  // namespace dtrain::tasks
