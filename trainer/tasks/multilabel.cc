// --task=image_multilabel and text_multilabel: any number of several labels for each image, or for each sentence or
// pair, each with a logit of its own. The loss is the binary cross entropy, averaged over the labels as in
// transformers. Metrics are those of scikit-learn: the F1 over all decisions and averaged over the labels, and the mean
// of the labels' average precisions.
#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <utility>

#include "trainer/tasks/image_kinds.h"
#include "trainer/tasks/image_task.h"
#include "trainer/tasks/metric_formulas.h"
#include "trainer/tasks/text_kinds.h"
#include "trainer/tasks/text_task.h"

namespace dtrain::tasks {
namespace {

// The sums of an evaluation have three counts for each label: decisions that were right, labels that were decided for,
// labels that hold. Unless there are too many samples, their places follow, with the targets of each label, which are 1
// or 2, and then the logits.
class SeveralLabels {
 public:
  // A label is decided for from the probability `threshold` on.
  SeveralLabels(int64_t labels, double threshold)
      : labels_(labels), least_logit_(std::log(threshold / (1 - threshold))) {}

  // Task::BeginEvaluation.
  void Begin(const DataSplit& split) {
    constexpr int64_t kMostNumbers = 1 << 25;  // 256 MiB on each rank
    names_ = split.source->class_names();
    const int64_t samples = split.source->size(), numbers = 2 * labels_;
    places_ = {samples > kMostNumbers / numbers ? 0 : samples, numbers};
  }
  // Whether Metrics has no map: there are too many samples, or not yet any.
  bool lacks_map() const { return places_.samples == 0; }
  int64_t num_sums() const { return 3 * labels_ + places_.num_sums(); }
  // Adds a batch. `sums` are float64, `logits_NC` and `targets_NC` (0 or 1) float32 on the same device; `places`, int64
  // N, are the numbers of the samples.
  void AddTo(at::Tensor sums, const at::Tensor& logits_NC, const at::Tensor& targets_NC,
             const at::Tensor& places) const;
  // Return map, f1_micro and f1_macro in percent, and the counts of each label, of sums on the host. map is NaN if
  // there are too many samples.
  report::Metrics Metrics(const double* sums) const;
  std::vector<report::ClassScores> Scores(const double* sums) const;

 private:
  const int64_t labels_;
  const double least_logit_;  // that a label is decided for
  std::vector<std::string> names_;
  SamplePlaces places_;
};

void SeveralLabels::AddTo(at::Tensor sums, const at::Tensor& logits_NC, const at::Tensor& targets_NC,
                          const at::Tensor& places) const {
  const at::Tensor decided = logits_NC.ge(least_logit_).to(at::kDouble);
  const auto counts = [&](int64_t part) { return sums.slice(0, part * labels_, (part + 1) * labels_); };
  counts(0).add_(decided.mul(targets_NC).sum(0));
  counts(1).add_(decided.sum(0));
  counts(2).add_(targets_NC.sum(0));
  places_.Fill(sums.slice(0, 3 * labels_), places, at::cat({targets_NC + 1, logits_NC}, 1));
}

std::vector<report::ClassScores> SeveralLabels::Scores(const double* sums) const {
  const ClassCounts counts = CountsFrom(sums, labels_);
  std::vector<report::ClassScores> scores;
  for (size_t label = 0; label < names_.size(); ++label) {
    scores.push_back({.name = names_[label],
                      .samples = std::llround(counts.actual[label]),
                      .correct = std::llround(counts.correct[label]),
                      .taken = std::llround(counts.predicted[label])});
  }
  return scores;
}

report::Metrics SeveralLabels::Metrics(const double* sums) const {
  const ClassCounts counts = CountsFrom(sums, labels_);
  double macro = 0, correct = 0, both = 0;
  for (size_t label = 0; label < counts.actual.size(); ++label) {
    const double decided_or_held = counts.predicted[label] + counts.actual[label];
    if (decided_or_held > 0) macro += 2 * counts.correct[label] / decided_or_held;
    correct += counts.correct[label];
    both += decided_or_held;
  }
  const double* places = sums + 3 * labels_;
  double precision = lacks_map() ? std::numeric_limits<double>::quiet_NaN() : 0;
  for (int64_t label = 0; label < labels_; ++label) {
    std::vector<bool> holds;
    for (const double target : places_.Column(places, label)) holds.push_back(target > 1.5);
    precision += AveragePrecision(places_.Column(places, labels_ + label), holds);
  }
  return {Percent("map", 100 * (precision / static_cast<double>(labels_))),
          Percent("f1_micro", 100 * (both > 0 ? 2 * correct / both : 0)),
          Percent("f1_macro", 100 * (macro / static_cast<double>(labels_)))};
}

// --class_weights weigh the images that have a label, as torch's BCEWithLogitsLoss(pos_weight).
class ImageMultilabelTask : public ImageTargetTask {
 public:
  ImageMultilabelTask(std::shared_ptr<models::ImageModel> model, const DataSizes& sizes, const config::Config& config,
                      at::Device device)
      : ImageTargetTask(std::move(model), sizes, config, device),
        criterion_options_{config.optimizer},
        labels_(sizes.num_classes, config.data.label_threshold) {}

  std::string best_metric() const override { return labels_.lacks_map() ? "f1_micro" : "map"; }
  void UseClassWeights(const at::Tensor& weights_C) override { criterion_options_.class_weights = weights_C; }
  void BeginEvaluation(const DataSplit& split) override { labels_.Begin(split); }
  std::vector<report::ClassScores> ScoresOf(const at::Tensor& sums) const override {
    return labels_.Scores(sums.const_data_ptr<double>());
  }

 protected:
  bool gathers_samples() const override { return true; }
  void AddRandomLabels(data::Batch& batch, int64_t samples) const override {
    batch.tensors[kTargets] = at::randint(2, {samples, outputs()}, at::kFloat);
  }
  // The validation loss has no weights: it describes the model, not the way it was trained.
  at::Tensor LossSum(const at::Tensor& logits_NC, const at::Tensor& wanted_NC, bool training) const override {
    if (training) return BinaryCrossEntropySum(logits_NC, wanted_NC, criterion_options_);
    return at::binary_cross_entropy_with_logits(logits_NC, wanted_NC).mul(logits_NC.size(0));
  }
  int64_t num_own_sums() const override { return labels_.num_sums(); }
  void AddTo(at::Tensor own, const at::Tensor& logits_NC, const at::Tensor& wanted_NC,
             const data::Batch& batch) const override {
    labels_.AddTo(std::move(own), logits_NC, wanted_NC, batch[kPlaces]);
  }
  report::Metrics OwnMetrics(const double* own, double /*images*/) const override { return labels_.Metrics(own); }

 private:
  CriterionOptions criterion_options_;
  SeveralLabels labels_;
};

class TextMultilabelTask : public TextTask {
 public:
  TextMultilabelTask(std::shared_ptr<models::TextModel> model, const config::Config& config, at::Device device)
      : TextTask(std::move(model), config, device), labels_(outputs(), config.data.label_threshold) {}

  std::string best_metric() const override { return "f1_micro"; }
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
  report::Metrics OwnMetrics(const double* own, double /*terms*/) const override { return labels_.Metrics(own); }

 private:
  SeveralLabels labels_;
};

}  // namespace

const TaskKind& ImageMultilabel() {
  return ImageKindOf<ImageMultilabelTask>("image_multilabel", data::LabelKind::kSeveral);
}

const TaskKind& TextMultilabel() {
  return SentenceKindOf<TextMultilabelTask>("text_multilabel", data::kSeveralTarget, models::HeadKind::kSeveral);
}

}  // namespace dtrain::tasks
