// --task=text_multilabel: any number of several labels for each sentence or pair, each with a logit of its own. The
// loss is the binary cross entropy, averaged over the labels as in transformers. Metrics are those of scikit-learn: the
// F1 over all decisions and averaged over the labels, and the mean of the labels' average precisions.
#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <utility>

#include "trainer/tasks/metric_formulas.h"
#include "trainer/tasks/sentence_kinds.h"
#include "trainer/tasks/sentence_task.h"

namespace dtrain::tasks {
namespace {

// The sums of an evaluation begin with three counts for each label: decisions that were right, labels that were
// decided for, labels that hold. Unless there are too many, places for each label of each sample follow, for logits and
// then for targets, which are 1 or 2; so that the sum over the ranks is those of all samples.
class TextMultilabelTask : public SentenceTask {
 public:
  TextMultilabelTask(std::shared_ptr<models::TextModel> model, const config::Config& config, at::Device device)
      : SentenceTask(std::move(model), config, device),
        least_logit_(std::log(config.data.label_threshold / (1 - config.data.label_threshold))) {}

  std::string best_metric() const override { return "micro_f1"; }
  void BeginEvaluation(const DataSplit& split) override {
    constexpr int64_t kMostPlaces = 1 << 24;
    names_ = split.source->class_names();
    samples_ = split.source->size() * outputs() <= kMostPlaces ? split.source->size() : 0;
  }
  std::vector<report::ClassScores> ScoresOf(const at::Tensor& sums) const override {
    const ClassCounts counts = CountsFrom(sums.const_data_ptr<double>(), outputs());
    std::vector<report::ClassScores> scores;
    for (size_t label = 0; label < names_.size(); ++label) {
      scores.push_back({.name = names_[label],
                        .samples = std::llround(counts.actual[label]),
                        .correct = std::llround(counts.correct[label]),
                        .taken = std::llround(counts.predicted[label])});
    }
    return scores;
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
  int64_t num_own_sums() const override { return (3 + 2 * samples_) * outputs(); }
  void AddTo(at::Tensor own, const at::Tensor& logits_NC, const data::Batch& batch) const override {
    const at::Tensor &targets = batch[target_name()], decided = logits_NC.ge(least_logit_).to(at::kDouble);
    const auto counts = [&](int64_t part) { return own.slice(0, part * outputs(), (part + 1) * outputs()); };
    counts(0).add_(decided.mul(targets).sum(0));
    counts(1).add_(decided.sum(0));
    counts(2).add_(targets.sum(0));
    if (samples_ == 0) return;
    const at::Tensor places = own.slice(0, 3 * outputs()).view({2, samples_, outputs()});
    places[0].index_copy_(0, batch[kPlaces], logits_NC.to(at::kDouble));
    places[1].index_copy_(0, batch[kPlaces], targets.to(at::kDouble).add(1));
  }
  report::Metrics OwnMetrics(const double* own) const override;

 private:
  double MeanAveragePrecision(const double* logits, const double* targets) const;

  const double least_logit_;  // that a label is decided for
  std::vector<std::string> names_;
  int64_t samples_ = 0;  // of the split that is evaluated; 0: places would take too much memory
};

double TextMultilabelTask::MeanAveragePrecision(const double* logits, const double* targets) const {
  double sum = 0;
  for (int64_t label = 0; label < outputs(); ++label) {
    std::vector<double> scores;
    std::vector<bool> holds;
    for (int64_t place = label; place < samples_ * outputs(); place += outputs()) {
      if (targets[place] == 0) continue;  // left out of this evaluation
      scores.push_back(logits[place]);
      holds.push_back(targets[place] > 1.5);
    }
    sum += AveragePrecision(scores, holds);
  }
  return sum / static_cast<double>(outputs());
}

report::Metrics TextMultilabelTask::OwnMetrics(const double* own) const {
  const ClassCounts counts = CountsFrom(own, outputs());
  double macro = 0, correct = 0, both = 0;
  for (size_t label = 0; label < counts.actual.size(); ++label) {
    const double decided_or_held = counts.predicted[label] + counts.actual[label];
    if (decided_or_held > 0) macro += 2 * counts.correct[label] / decided_or_held;
    correct += counts.correct[label];
    both += decided_or_held;
  }
  const auto percent = [](const char* name, double share) {
    return report::Metric{.name = name, .value = 100 * share, .decimals = 2, .higher_is_better = true};
  };
  const double* logits = own + 3 * outputs();
  const double precision = samples_ == 0 ? std::numeric_limits<double>::quiet_NaN()
                                         : MeanAveragePrecision(logits, logits + samples_ * outputs());
  return {percent("micro_f1", both > 0 ? 2 * correct / both : 0), percent("f1", macro / static_cast<double>(outputs())),
          percent("map", precision)};
}

}  // namespace

const TaskKind& TextMultilabel() {
  static const SentenceKindOf<TextMultilabelTask> kind("text_multilabel", data::SentenceTarget::kSeveral);
  return kind;
}

}  // namespace dtrain::tasks
