// The tasks of texts: what they have in common, and the class or the number of a sentence or of a pair. Text
// classification minimises the cross entropy, text regression the squared error. Metrics are exact over all samples,
// whatever the number of ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/pipeline/batch.h"
#include "data/text/token_rows.h"
#include "models/sequences.h"
#include "models/text_model.h"
#include "trainer/config/config.h"
#include "trainer/optim/precision.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/metric_formulas.h"
#include "trainer/tasks/task.h"

namespace dtrain::tasks {

// The sequences of a batch in the form that the model takes: the tokens, and where each sequence begins. The host
// computes all of it before the batch is copied, since shapes depend on these numbers and the host would otherwise wait
// for the device.
struct SequenceBatch {
  models::Sequences sequences;
  int64_t tokens = 0;      // without padding
  int64_t empty_rows = 0;  // without a token

  // The numbers of the batch as float32 scalars on its device, for steps that are recorded (step_graph.h).
  struct Counts {
    at::Tensor terms, tokens, padding, empty_rows;  // padding: tokens that the model computes on besides `tokens`
  } counts;
};

// What the list of tokens holds besides tokens.
struct TokenLayout {
  bool unpad = false;       // the padding of rows is left out
  int64_t most_tokens = 0;  // if not 0, the list without padding is filled up: see models::FillUp
};

// Turns the input_ids, attention_mask and token types, if any, of `rows` (data/text/token_rows.h), which are on the
// host, into a batch with the tensors of a SequenceBatch and with `index`. The model computes on the first place of a
// row without a token, since attention to nothing is undefined. `terms` is the number of terms in the loss of the
// batch. `kept` is as in models::Packed; it stays undefined without `layout.unpad`.
data::Batch PreparedSequences(const data::Batch& rows, const models::TextShape& shape, const TokenLayout& layout,
                              int64_t terms, at::Tensor* kept = nullptr);

// Views a batch that PreparedSequences has returned, and that may have been copied to a device since. Copies nothing,
// and does not wait for the device.
SequenceBatch SequencesOf(const data::Batch& prepared);

// The name of the tensor of a prepared batch with its tokens (Sequences::ids).
inline constexpr char kPreparedIds[] = "ids";

// In prepared batches of words with labels: the number of the word of each place in the list of tokens that has a label
// (data::SplitWords).
inline constexpr char kWordPlaces[] = "word_places";

// What these tasks have in common. A term of the loss belongs to a sample, or to a word or token with a label.
class TextTask : public Task {
 public:
  TextTask(std::shared_ptr<models::TextModel> model, const config::Config& config, at::Device device);

  torch::nn::Module& module() override { return *model_; }
  at::Device device() const override { return device_; }
  // The weight is the number of terms, or the sum of their classes' weights.
  LossSums Loss(const data::Batch& batch) override;
  double NominalWeight(int64_t samples) const override { return static_cast<double>(samples); }
  bool weight_varies() const override { return true; }
  report::SpeedUnit speed_unit() const override { return report::SpeedUnit::kTokens; }
  std::string WhyNotRecorded() const override;
  models::ForwardCost CostOfSample() const override { return model_->Cost(longest_, longest_, /*rows=*/1); }
  data::Batch RandomBatch(int64_t samples) const override;
  void AddEvaluationSums(const data::Batch& batch, at::Tensor sums) override;
  int64_t num_evaluation_sums() const override;
  report::Metrics MetricsOf(const at::Tensor& sums) const override;
  bool ObserveOutputs(OutputsObserver observer) override {
    observer_ = std::move(observer);
    return true;
  }
  void AddCounts(const at::Tensor& sums, report::TextCounts& counts) const override;

  const models::TextShape& shape() const { return model_->shape(); }

  // Returns logits for a prepared batch, float32 on the device: N×outputs, or for each place of the list of tokens.
  virtual at::Tensor Logits(const data::Batch& batch);
  // Returns what the observer sees of such a batch.
  virtual SampleOutputs Observed(const at::Tensor& logits, const data::Batch& batch) const {
    return {batch["index"], logits, batch[target_name()]};
  }

 protected:
  int64_t outputs() const { return model_->outputs(); }
  models::TextModel& model() const { return *model_; }
  const optim::Precision& precision() const { return precision_; }
  int64_t longest() const { return longest_; }
  const TokenLayout& layout() const { return layout_; }

  // Takes batches in the form of data/text/token_rows.h; labels and targets may be missing for Logits.
  data::Batch PreparedTensors(data::Batch batch) const override;
  // Returns what the head sees.
  virtual at::Tensor Hidden(const models::Sequences& sequences) { return model_->Pooled(sequences); }
  // Returns the training criterion, summed over the batch, and in an evaluation the loss.
  virtual at::Tensor LossSum(const at::Tensor& logits_NC, const data::Batch& batch, bool training) const = 0;
  // Returns the weight of a training batch; `terms` is their number.
  virtual at::Tensor Weight(const data::Batch& /*batch*/, const at::Tensor& terms) const { return terms; }
  virtual at::Tensor Hits(const at::Tensor& /*logits_NC*/, const data::Batch& /*batch*/) const { return {}; }
  virtual const char* target_name() const = 0;  // the tensor of a batch with the labels
  virtual void AddRandomLabels(data::Batch& batch, int64_t samples) const = 0;

  // The sums of an evaluation that only one of the tasks has: they come first.
  virtual int64_t num_own_sums() const = 0;
  virtual void AddTo(at::Tensor own, const at::Tensor& logits_NC, const data::Batch& batch) const = 0;
  // The metrics besides the loss. `terms` is the number of terms in it, NaN if there is none.
  virtual report::Metrics OwnMetrics(const double* own, double terms) const = 0;

 private:
  std::shared_ptr<models::TextModel> model_;
  const optim::Precision& precision_;
  int64_t longest_;  // --tokens_per_sample
  TokenLayout layout_;
  OutputsObserver observer_;
  at::Device device_;
};

// Metrics: val_loss, val_accuracy (percent), val_f1 (macro) and val_matthews (metric_formulas.h).
class TextClassificationTask : public TextTask {
 public:
  TextClassificationTask(std::shared_ptr<models::TextModel> model, const config::Config& config, at::Device device);

  void UseClassWeights(const at::Tensor& weights_C) override { class_weights_ = weights_C; }
  std::string best_metric() const override { return "accuracy"; }
  report::Metrics TrainingMetrics(double hits, double weight) const override;
  void CountConfusions() override { num_confusions_ = NumConfusions(outputs()); }
  std::vector<int64_t> ConfusionsOf(const at::Tensor& sums) const override {
    return ConfusionsIn(sums, num_confusions_);
  }

 protected:
  at::Tensor LossSum(const at::Tensor& logits_NC, const data::Batch& batch, bool training) const override;
  at::Tensor Weight(const data::Batch& batch, const at::Tensor& terms) const override;
  at::Tensor Hits(const at::Tensor& logits_NC, const data::Batch& batch) const override;
  const char* target_name() const override { return data::kSentenceLabels; }
  void AddRandomLabels(data::Batch& batch, int64_t samples) const override;
  int64_t num_own_sums() const override { return num_confusions_ + 3 * outputs(); }
  void AddTo(at::Tensor own, const at::Tensor& logits_NC, const data::Batch& batch) const override;
  report::Metrics OwnMetrics(const double* own, double terms) const override;

 private:
  double label_smoothing_;
  at::Tensor class_weights_;    // undefined: all are 1
  int64_t num_confusions_ = 0;  // 0: they are not counted
};

// Metrics: val_loss (the mean squared error), val_pearson and val_spearman. The sums of an evaluation are a place for
// each sample, with 1, what is predicted, and what it should be.
class TextRegressionTask : public TextTask {
 public:
  using TextTask::TextTask;

  std::string best_metric() const override { return "pearson"; }
  void BeginEvaluation(const DataSplit& split) override { places_ = {split.source->size(), 3}; }

 protected:
  at::Tensor LossSum(const at::Tensor& logits_N1, const data::Batch& batch, bool training) const override;
  bool gathers_samples() const override { return true; }
  const char* target_name() const override { return data::kSentenceTargets; }
  void AddRandomLabels(data::Batch& batch, int64_t samples) const override;
  int64_t num_own_sums() const override { return places_.num_sums(); }
  void AddTo(at::Tensor own, const at::Tensor& logits_N1, const data::Batch& batch) const override;
  report::Metrics OwnMetrics(const double* own, double terms) const override;

  SamplePlaces places_;
};

// Returns the vectors of sequences as --pooling and --normalize_vectors say, N×H, float32 (sentence_embedding.cc).
at::Tensor VectorsOf(models::TextModel& model, const models::Sequences& sequences, const config::TextConfig& config);

}  // namespace dtrain::tasks
