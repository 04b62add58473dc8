#include "trainer/tasks/several_labels.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "trainer/tasks/metric_formulas.h"

namespace dtrain::tasks {

SeveralLabels::SeveralLabels(int64_t labels, double threshold)
    : labels_(labels), least_logit_(std::log(threshold / (1 - threshold))) {}

void SeveralLabels::Begin(const DataSplit& split) {
  constexpr int64_t kMostPlaces = 1 << 24;
  names_ = split.source->class_names();
  lacks_map_ = split.source->size() * labels_ > kMostPlaces;
  samples_ = lacks_map_ ? 0 : split.source->size();
}

void SeveralLabels::AddTo(at::Tensor sums, const at::Tensor& logits_NC, const at::Tensor& targets_NC,
                          const at::Tensor& places) const {
  const at::Tensor decided = logits_NC.ge(least_logit_).to(at::kDouble);
  const auto counts = [&](int64_t part) { return sums.slice(0, part * labels_, (part + 1) * labels_); };
  counts(0).add_(decided.mul(targets_NC).sum(0));
  counts(1).add_(decided.sum(0));
  counts(2).add_(targets_NC.sum(0));
  if (samples_ == 0) return;
  const at::Tensor of_samples = sums.slice(0, 3 * labels_).view({2, samples_, labels_});
  of_samples[0].index_copy_(0, places, logits_NC.to(at::kDouble));
  of_samples[1].index_copy_(0, places, targets_NC.to(at::kDouble).add(1));
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

double SeveralLabels::MeanAveragePrecision(const double* logits, const double* targets) const {
  double sum = 0;
  for (int64_t label = 0; label < labels_; ++label) {
    std::vector<double> scores;
    std::vector<bool> holds;
    for (int64_t place = label; place < samples_ * labels_; place += labels_) {
      if (targets[place] == 0) continue;  // left out of this evaluation
      scores.push_back(logits[place]);
      holds.push_back(targets[place] > 1.5);
    }
    sum += AveragePrecision(scores, holds);
  }
  return sum / static_cast<double>(labels_);
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
  const auto percent = [](const char* name, double share) {
    return report::Metric{.name = name, .value = 100 * share, .decimals = 2, .higher_is_better = true};
  };
  const double* logits = sums + 3 * labels_;
  const double precision = samples_ == 0 ? std::numeric_limits<double>::quiet_NaN()
                                         : MeanAveragePrecision(logits, logits + samples_ * labels_);
  return {percent("micro_f1", both > 0 ? 2 * correct / both : 0), percent("f1", macro / static_cast<double>(labels_)),
          percent("map", precision)};
}

}  // namespace dtrain::tasks
