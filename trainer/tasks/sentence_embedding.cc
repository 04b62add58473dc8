// --task=sentence_embedding: a vector for each text, near to those of texts that mean the same. A sample is two texts
// that are alike, and any number of negatives; or two texts and a score. The losses are sentence-transformers'
// MultipleNegativesRankingLoss, with the second texts and the negatives of all ranks' samples, and its
// CosineSimilarityLoss. Letters in names: N samples of K texts, H features, C candidates.
#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "trainer/distributed/communicator.h"
#include "trainer/errors.h"
#include "trainer/tasks/metric_formulas.h"
#include "trainer/tasks/text_kinds.h"
#include "trainer/tasks/text_task.h"

namespace dtrain::tasks {
namespace {

at::Tensor Normalised(const at::Tensor& x_NH) {
  constexpr double kLeast = 1e-12;  // as in torch's normalize
  return x_NH / x_NH.norm(2, {1}, /*keepdim=*/true).clamp_min(kLeast);
}

// Returns the cosines of first texts to all further ones, N×C. The candidate of the first text of sample i is in column
// i.
at::Tensor Cosines(const at::Tensor& first_NH, const at::Tensor& all_NKH) {
  return first_NH.matmul(all_NKH.slice(1, 1).transpose(0, 1).flatten(0, 1).t());
}

// The sums of an evaluation of samples with scores are those of a regression by the cosine. Of other samples they are
// places for the vectors of the first ones of the split, each behind a 1: each first text looks for its second one
// among all further texts of these samples.
class SentenceEmbeddingTask : public TextRegressionTask {
 public:
  SentenceEmbeddingTask(std::shared_ptr<models::TextModel> model, const config::Config& config, at::Device device)
      : TextRegressionTask(std::move(model), config, device), config_(config.text) {}

  void UseRanks(distributed::Communicator& communicator) override { communicator_ = &communicator; }
  models::ForwardCost CostOfSample() const override { return model().Cost(2 * longest(), longest(), 2); }

  std::string best_metric() const override { return searches_ ? "accuracy" : "spearman"; }
  void BeginEvaluation(const DataSplit& split) override;
  report::Metrics MetricsOf(const at::Tensor& sums) const override {
    report::Metrics metrics = TextRegressionTask::MetricsOf(sums);
    if (searches_) metrics.erase(metrics.begin());  // OwnMetrics has the loss
    return metrics;
  }

 protected:
  data::Batch PreparedTensors(data::Batch batch) const override {
    for (const char* name : {data::kInputIds, data::kAttentionMask}) batch.tensors[name] = batch[name].flatten(0, 1);
    return TextRegressionTask::PreparedTensors(std::move(batch));
  }
  at::Tensor Hidden(const models::Sequences& sequences) override {
    return Normalised(VectorsOf(model(), sequences, config_));
  }
  at::Tensor LossSum(const at::Tensor& vectors_RH, const data::Batch& batch, bool training) const override;
  // Returns the contrastive loss of rows of Cosines, whose second texts are in the columns from `first` on.
  at::Tensor ContrastiveSum(const at::Tensor& cosines_BC, int64_t first) const {
    const at::Tensor own_B = at::arange(first, first + cosines_BC.size(0), cosines_BC.options().dtype(at::kLong));
    return at::cross_entropy_loss(cosines_BC / config_.temperature, own_B, {}, at::Reduction::Sum);
  }
  void AddRandomLabels(data::Batch& batch, int64_t samples) const override {
    for (const char* name : {data::kInputIds, data::kAttentionMask})
      batch.tensors[name] = batch[name].unsqueeze(1).expand({samples, 2, longest()}).contiguous();
  }
  void AddTo(at::Tensor own, const at::Tensor& vectors_RH, const data::Batch& batch) const override;
  report::Metrics OwnMetrics(const double* own, double terms) const override;

 private:
  const config::TextConfig config_;
  distributed::Communicator* communicator_ = nullptr;

  // Of the split that is evaluated.
  bool searches_ = false;  // it has no scores
  int64_t texts_ = 2;
};

// Returns N×K×H.
at::Tensor BySample(const at::Tensor& vectors_RH, const data::Batch& batch) {
  return vectors_RH.view({batch.size(), -1, vectors_RH.size(1)});
}

at::Tensor CosinesOfPairs(const at::Tensor& vectors_RH, const data::Batch& batch) {
  const at::Tensor vectors_N2H = BySample(vectors_RH, batch);
  return (vectors_N2H.select(1, 0) * vectors_N2H.select(1, 1)).sum(1);
}

at::Tensor SentenceEmbeddingTask::LossSum(const at::Tensor& vectors_RH, const data::Batch& batch, bool training) const {
  if (batch.tensors.contains(data::kSentenceTargets))
    return at::mse_loss(CosinesOfPairs(vectors_RH, batch), batch[data::kSentenceTargets], at::Reduction::Sum);
  if (!training) return at::zeros({}, vectors_RH.options());
  const at::Tensor own_NKH = BySample(vectors_RH, batch);
  const int64_t first = communicator_ == nullptr ? 0 : communicator_->rank() * own_NKH.size(0);
  const at::Tensor all = communicator_ == nullptr ? own_NKH : distributed::GatheredRows(own_NKH, *communicator_);
  return ContrastiveSum(Cosines(own_NKH.select(1, 0), all), first);
}

void SentenceEmbeddingTask::BeginEvaluation(const DataSplit& split) {
  constexpr int64_t kMostNumbers = 1 << 23;  // the time to compare so many vectors grows with their square
  TextRegressionTask::BeginEvaluation(split);
  searches_ = !HasNumbers(split);
  texts_ = split.decoder->fields(/*size=*/1).front().row_shape.front();
  const int64_t numbers = 1 + texts_ * shape().hidden_size;
  if (searches_) places_ = {std::min(split.source->size(), kMostNumbers / numbers), numbers};
}

void SentenceEmbeddingTask::AddTo(at::Tensor own, const at::Tensor& vectors_RH, const data::Batch& batch) const {
  if (!searches_) return TextRegressionTask::AddTo(own, CosinesOfPairs(vectors_RH, batch).unsqueeze(1), batch);
  const at::Tensor vectors = vectors_RH.view({batch.size(), -1});
  places_.Fill(own, batch[kPlaces], at::cat({at::ones({batch.size(), 1}, vectors.options()), vectors}, 1));
}

report::Metrics SentenceEmbeddingTask::OwnMetrics(const double* own, double terms) const {
  const bool is_known = places_.samples > 0;
  report::Metrics metrics;
  if (!searches_) metrics = TextRegressionTask::OwnMetrics(own, terms);
  if (!searches_ && is_known) return metrics;
  double found = 0, reciprocal_ranks = 0, loss = 0, samples = 0;
  if (is_known) {
    constexpr int64_t kAtOnce = 1024;
    const at::Tensor all_NKH = places_.Rows(own).slice(1, 1).to(at::kFloat).reshape({-1, texts_, shape().hidden_size});
    samples = static_cast<double>(all_NKH.size(0));
    for (int64_t first = 0; first < all_NKH.size(0); first += kAtOnce) {
      const at::Tensor some_BH = all_NKH.slice(0, first, first + kAtOnce).select(1, 0);
      const at::Tensor cosines_BC = Cosines(some_BH, all_NKH), own_B = cosines_BC.diagonal(first);
      // Equal cosines share their ranks, and NaN is in the middle, so that vectors that are all the same find nothing.
      const at::Tensor best_B = cosines_BC.gt(own_B.unsqueeze(1)).sum(1) + 1;
      const at::Tensor worst_B = cosines_BC.size(1) - cosines_BC.lt(own_B.unsqueeze(1)).sum(1);
      const at::Tensor ranks_B = (best_B + worst_B).to(at::kDouble) / 2;
      found += ranks_B.eq(1).sum().item<double>();
      reciprocal_ranks += ranks_B.reciprocal().sum().item<double>();
      loss += ContrastiveSum(cosines_BC, first).item<double>();
    }
  }
  metrics.push_back({.name = "loss", .value = loss / samples});
  metrics.push_back(Percent("accuracy", 100 * found / samples));
  metrics.push_back(Coefficient("mrr", reciprocal_ranks / samples));
  return metrics;
}

void RequireNegatives(const config::Config& config, const config::BatchSizes& batch, const DataSets& data) {
  const int64_t samples =
      batch.elastic ? batch.global_batch_size / batch.shards : batch.global_batch_size / batch.grad_accum_steps;
  const int64_t texts = data.train->decoder->fields(/*size=*/1).front().row_shape.front();
  if (config.text.max_tokens > 0) {
    throw UsageError("--max_tokens is not for --task=sentence_embedding: ranks must have equally many samples",
                     "give --batch_size");
  }
  if (!HasNumbers(*data.train) && samples * (texts - 1) < 2) {
    throw UsageError("a batch of one pair has no negatives, so that nothing is learned",
                     "give a larger --batch_size, or less --grad_accum_steps or --elastic_shards");
  }
  for (const DataSplit* split : ValidationSets(data)) {
    const std::string& metric = config.run.best_metric;
    const bool is_of_scores = metric == "spearman" || metric == "pearson", has_scores = HasNumbers(*split);
    if (metric == "auto" || metric == "loss" || is_of_scores == has_scores) continue;
    throw UsageError(
        "--best_metric=" + metric + ": split " + split->name + (has_scores ? " has scores" : " has no scores"),
        has_scores ? "give loss, pearson or spearman" : "give loss, accuracy or mrr");
  }
}

}  // namespace

at::Tensor VectorsOf(models::TextModel& model, const models::Sequences& sequences, const config::TextConfig& config) {
  const at::Tensor vectors_NH = config.pooling == "cls"
                                    ? model.EncodeFirst(sequences).to(at::kFloat)
                                    : models::MeanOfTokens(model.Encode(sequences).to(at::kFloat), sequences);
  return config.normalize_vectors ? Normalised(vectors_NH) : vectors_NH;
}

const TaskKind& SentenceEmbedding() {
  return SentenceKindOf<SentenceEmbeddingTask>("sentence_embedding", data::kTextsTarget, models::HeadKind::kNone,
                                               &RequireNegatives);
}

}  // namespace dtrain::tasks
