// --task=text_multilabel: any number of several labels for each sentence or pair, each with a logit of its own. The
// loss is the binary cross entropy, averaged over the labels as in transformers.
#include <ATen/ATen.h>

#include <utility>

#include "trainer/tasks/sentence_kinds.h"
#include "trainer/tasks/sentence_task.h"
#include "trainer/tasks/several_labels.h"

namespace dtrain::tasks {
namespace {

class TextMultilabelTask : public SentenceTask {
 public:
  TextMultilabelTask(std::shared_ptr<models::TextModel> model, const config::Config& config, at::Device device)
      : SentenceTask(std::move(model), config, device), labels_(outputs(), config.data.label_threshold) {}

  std::string best_metric() const override { return "micro_f1"; }
  void BeginEvaluation(const DataSplit& split) override { labels_.Begin(split); }
  std::vector<report::ClassScores> ScoresOf(const at::Tensor& sums) const override {
    return labels_.Scores(sums.const_data_ptr<double>());
  }

 protected:
  at::Tensor LossSum(const at::Tensor& logits_NC, const data::Batch& batch, bool /*training*/) const override {
    return at::binary_cross_entropy_with_logits(logits_NC, batch[target_name()]).mul(batch.size());
  }
  bool gathers_samples() const override { return true; }
  const char* target_name() const override { return data::kSentenceTargets; }
  void AddRandomLabels(data::Batch& batch, int64_t samples) const override {
    batch.tensors[data::kSentenceTargets] = at::randint(2, {samples, outputs()}, at::kFloat);
  }
  int64_t num_own_sums() const override { return labels_.num_sums(); }
  void AddTo(at::Tensor own, const at::Tensor& logits_NC, const data::Batch& batch) const override {
    labels_.AddTo(std::move(own), logits_NC, batch[target_name()], batch[kPlaces]);
  }
  report::Metrics OwnMetrics(const double* own) const override { return labels_.Metrics(own); }

 private:
  SeveralLabels labels_;
};

}  // namespace

const TaskKind& TextMultilabel() {
  static const SentenceKindOf<TextMultilabelTask> kind("text_multilabel", data::SentenceTarget::kSeveral);
  return kind;
}

}  // namespace dtrain::tasks
