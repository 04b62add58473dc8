// Measures of how well samples are classified or rated, as torch, scikit-learn and scipy compute them, the metrics that
// show them, and what collects the numbers of all samples for them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/report/points.h"

namespace dtrain::tasks {

// The samples of each class, by label; the lists are of equal length. They are what these measures take of a confusion
// matrix.
struct ClassCounts {
  std::vector<double> correct;    // samples of the class that were recognised
  std::vector<double> predicted;  // samples that were taken for the class
  std::vector<double> actual;     // samples of the class
};

// `confusions` has classes² counts, a row for each true class.
ClassCounts CountsIn(const std::vector<int64_t>& confusions);

// Returns the percentage of samples that were recognised.
double Accuracy(const ClassCounts& counts);

// Returns the mean percentage over the classes that have samples: sklearn.metrics.balanced_accuracy_score.
double BalancedAccuracy(const ClassCounts& counts);

// Returns the mean of the F1 scores, in percent, of the classes that occur among the samples or the predictions:
// sklearn.metrics.f1_score(average="macro").
double MacroF1(const ClassCounts& counts);

// Returns Matthews' correlation coefficient, -1 to 1, for any number of classes; 0 if all samples or all predictions
// are of one class: sklearn.metrics.matthews_corrcoef.
double MatthewsCorrelation(const ClassCounts& counts);

// Returns the counts from 3 · classes sums: of samples that were recognised, then predicted, then actual ones.
ClassCounts CountsFrom(const double* sums, int64_t classes);

// Returns the average precision of samples in the order of their scores, 0 to 1: of those that hold, the mean share
// that holds among all with at least their score. 0 if none holds: sklearn.metrics.average_precision_score.
double AveragePrecision(std::span<const double> scores, const std::vector<bool>& holds);

// Returns Pearson's correlation coefficient, -1 to 1. NaN if one of the two is constant or there are fewer than two
// samples. The spans are of equal length.
double PearsonCorrelation(std::span<const double> x, std::span<const double> y);

// Returns the same of the ranks, of which equal values share the mean: scipy.stats.spearmanr.
double SpearmanCorrelation(std::span<const double> x, std::span<const double> y);

// Returns the cross entropy of logits, float32, summed over the rows whose label is not data::kNoLoss. `weights_C` are
// those of the classes; undefined: all are 1.
at::Tensor CrossEntropySum(const at::Tensor& logits_NC, const at::Tensor& labels_N, double label_smoothing = 0,
                           const at::Tensor& weights_C = {});

// Returns the first `count` classes of each row of logits, int64 N×count: the one order of a sample's classes, for
// metrics and for the files of predictions. It is by their logits, and of equal ones the first. Probabilities are of no
// use for it, as different logits may round to the same one.
at::Tensor LikeliestClasses(const at::Tensor& logits_NC, int64_t count);

// Return metrics of which more is better: in percent, and -1 to 1.
report::Metric Percent(const std::string& name, double value);
report::Metric Coefficient(const std::string& name, double value);

// Returns the size of a confusion matrix, classes², or 0 if nobody would read it (report::kMostClassesConfused).
int64_t NumConfusions(int64_t classes);

// Returns the confusion matrix, of this size, with which the sums of an evaluation, on the host, begin.
std::vector<int64_t> ConfusionsIn(const at::Tensor& sums, int64_t size);

// A place for each sample of a split among the sums of an evaluation. Each rank fills in those of its own samples, so
// that the sum over the ranks is what was found of all: for metrics that the parts of a split do not add up to.
//
// Each rank has room for all. A task with numbers for each label or feature bounds the samples; up to three numbers
// take less memory than the sample's text.
struct SamplePlaces {
  int64_t samples = 0;  // the first ones of the split
  int64_t numbers = 0;  // of each

  // The sums that they take: a row for each sample, and a last one for whatever has no place.
  int64_t num_sums() const { return samples == 0 ? 0 : (samples + 1) * numbers; }

  // Fills in rows of these sums. `places` are the numbers of samples (kPlaces), int64 N; those from `samples` on have
  // no place. `rows` are N×numbers, and their first column is never 0, which is what samples have that were left out.
  void Fill(const at::Tensor& sums, const at::Tensor& places, const at::Tensor& rows) const;

  // Return all rows that were filled in, float64 N×numbers, or one of their columns, from sums on the host.
  at::Tensor Rows(const double* sums) const;
  std::vector<double> Column(const double* sums, int64_t column) const;
};

}  // namespace dtrain::tasks
