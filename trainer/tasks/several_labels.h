// What the tasks with any number of several labels have in common, of texts and of images: their metrics, which are
// those of scikit-learn. The F1 over all decisions and averaged over the labels, and the mean of the labels' average
// precisions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/report/points.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::tasks {

// The sums of an evaluation (task.h) begin with three counts for each label: decisions that were right, labels that
// were decided for, labels that hold. Unless there are too many, places for each label of each sample follow, for
// logits and then for targets, which are 1 or 2; so that the sum over the ranks is those of all samples.
class SeveralLabels {
 public:
  // A label is decided for from the probability `threshold` on.
  SeveralLabels(int64_t labels, double threshold);

  // Task::BeginEvaluation.
  void Begin(const DataSplit& split);
  // Whether Metrics has no map: there are too many samples.
  bool lacks_map() const { return lacks_map_; }
  int64_t num_sums() const { return (3 + 2 * samples_) * labels_; }
  // Adds a batch. `sums` are float64, `logits_NC` and `targets_NC` (0 or 1) float32 on the same device; `places`, int64
  // N, are the numbers of the samples.
  void AddTo(at::Tensor sums, const at::Tensor& logits_NC, const at::Tensor& targets_NC,
             const at::Tensor& places) const;
  // Return micro_f1, f1 and map in percent, and the counts of each label, of sums on the host. map is NaN if there are
  // too many samples.
  report::Metrics Metrics(const double* sums) const;
  std::vector<report::ClassScores> Scores(const double* sums) const;

 private:
  double MeanAveragePrecision(const double* logits, const double* targets) const;

  const int64_t labels_;
  const double least_logit_;  // that a label is decided for
  std::vector<std::string> names_;
  bool lacks_map_ = false;
  int64_t samples_ = 0;  // of the split that is evaluated; 0: places would take too much memory
};

}  // namespace dtrain::tasks
