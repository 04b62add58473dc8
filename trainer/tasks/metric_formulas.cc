#include "trainer/tasks/metric_formulas.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

#include "data/text/masking.h"
#include "trainer/report/confusions.h"

namespace dtrain::tasks {
namespace {

using Numbers = std::vector<double>;

double Sum(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

double Product(std::span<const double> x, std::span<const double> y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

Numbers Centred(std::span<const double> values) {
  const double mean = Sum(values) / static_cast<double>(values.size());
  Numbers centred(values.begin(), values.end());
  for (double& value : centred) value -= mean;
  return centred;
}

Numbers Ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [values](size_t a, size_t b) { return values[a] < values[b]; });
  Numbers ranks(values.size());
  for (size_t first = 0, end = 0; first < order.size(); first = end) {
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double mean = 0.5 * static_cast<double>(first + 1 + end);
    for (size_t i = first; i < end; ++i) ranks[order[i]] = mean;
  }
  return ranks;
}

bool HasNaN(std::span<const double> values) {
  return std::ranges::any_of(values, [](double value) { return std::isnan(value); });
}

}  // namespace

ClassCounts CountsIn(const std::vector<int64_t>& confusions) {
  const auto classes = static_cast<size_t>(std::llround(std::sqrt(static_cast<double>(confusions.size()))));
  ClassCounts counts{Numbers(classes), Numbers(classes), Numbers(classes)};
  for (size_t cell = 0; cell < confusions.size(); ++cell) {
    const size_t label = cell / classes, predicted = cell % classes;
    const auto samples = static_cast<double>(confusions[cell]);
    counts.actual[label] += samples;
    counts.predicted[predicted] += samples;
    if (label == predicted) counts.correct[label] += samples;
  }
  return counts;
}

double Accuracy(const ClassCounts& counts) { return 100 * Sum(counts.correct) / Sum(counts.actual); }

double BalancedAccuracy(const ClassCounts& counts) {
  double sum = 0, classes = 0;
  for (size_t label = 0; label < counts.actual.size(); ++label) {
    if (counts.actual[label] == 0) continue;
    sum += 100 * counts.correct[label] / counts.actual[label];
    ++classes;
  }
  return sum / classes;
}

double MacroF1(const ClassCounts& counts) {
  double sum = 0, classes = 0;
  for (size_t label = 0; label < counts.actual.size(); ++label) {
    const double both = counts.predicted[label] + counts.actual[label];
    if (both == 0) continue;
    sum += 200 * counts.correct[label] / both;
    ++classes;
  }
  return sum / classes;
}

double MatthewsCorrelation(const ClassCounts& counts) {
  const double samples = Sum(counts.actual);
  const double covariance = Sum(counts.correct) * samples - Product(counts.predicted, counts.actual);
  const double of_predicted = samples * samples - Product(counts.predicted, counts.predicted);
  const double of_actual = samples * samples - Product(counts.actual, counts.actual);
  if (of_predicted == 0 || of_actual == 0) return 0;
  return covariance / std::sqrt(of_predicted) / std::sqrt(of_actual);
}

ClassCounts CountsFrom(const double* sums, int64_t classes) {
  const auto part = [&](int64_t number) { return Numbers(sums + number * classes, sums + (number + 1) * classes); };
  return {.correct = part(0), .predicted = part(1), .actual = part(2)};
}

double AveragePrecision(std::span<const double> scores, const std::vector<bool>& holds) {
  if (HasNaN(scores)) return std::numeric_limits<double>::quiet_NaN();
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [scores](size_t a, size_t b) { return scores[a] > scores[b]; });
  double sum = 0, held = 0;
  for (size_t first = 0, end = 0; first < order.size(); first = end) {
    double of_score = 0;  // equal scores are one step
    for (; end < order.size() && scores[order[end]] == scores[order[first]]; ++end)
      of_score += holds[order[end]] ? 1 : 0;
    held += of_score;
    sum += of_score * held / static_cast<double>(end);
  }
  return held > 0 ? sum / held : 0;
}

double PearsonCorrelation(std::span<const double> x, std::span<const double> y) {
  const bool is_constant = std::equal(x.begin() + (x.empty() ? 0 : 1), x.end(), x.begin()) ||
                           std::equal(y.begin() + (y.empty() ? 0 : 1), y.end(), y.begin());
  if (is_constant) return std::numeric_limits<double>::quiet_NaN();
  const Numbers a = Centred(x), b = Centred(y);
  return std::clamp(Product(a, b) / std::sqrt(Product(a, a)) / std::sqrt(Product(b, b)), -1.0, 1.0);
}

double SpearmanCorrelation(std::span<const double> x, std::span<const double> y) {
  if (HasNaN(x) || HasNaN(y)) return std::numeric_limits<double>::quiet_NaN();
  return PearsonCorrelation(Ranks(x), Ranks(y));
}

at::Tensor CrossEntropySum(const at::Tensor& logits_NC, const at::Tensor& labels_N, double label_smoothing,
                           const at::Tensor& weights_C) {
  return at::cross_entropy_loss(logits_NC, labels_N, weights_C, at::Reduction::Sum, data::kNoLoss, label_smoothing);
}

at::Tensor LikeliestClasses(const at::Tensor& logits_NC, int64_t count) {
  return std::get<1>(logits_NC.sort(/*stable=*/true, /*dim=*/1, /*descending=*/true)).slice(1, 0, count);
}

report::Metric Percent(const std::string& name, double value) {
  return {.name = name, .value = value, .decimals = 2, .higher_is_better = true};
}

report::Metric Coefficient(const std::string& name, double value) {
  return {.name = name, .value = value, .decimals = 4, .higher_is_better = true};
}

int64_t NumConfusions(int64_t classes) { return classes <= report::kMostClassesConfused ? classes * classes : 0; }

std::vector<int64_t> ConfusionsIn(const at::Tensor& sums, int64_t size) {
  const auto* sum = sums.const_data_ptr<double>();
  return {sum, sum + size};
}

void SamplePlaces::Fill(const at::Tensor& sums, const at::Tensor& places, const at::Tensor& rows) const {
  if (samples == 0) return;
  sums.view({samples + 1, numbers}).index_copy_(0, places.clamp_max(samples), rows.to(at::kDouble));
}

at::Tensor SamplePlaces::Rows(const double* sums) const {
  const at::Tensor rows = at::from_blob(const_cast<double*>(sums), {samples, numbers}, at::kDouble);
  return rows.index_select(0, rows.select(1, 0).nonzero().squeeze(1));
}

std::vector<double> SamplePlaces::Column(const double* sums, int64_t column) const {
  std::vector<double> values;
  for (const double* row = sums; row < sums + samples * numbers; row += numbers) {
    if (*row != 0) values.push_back(row[column]);
  }
  return values;
}

}  // namespace dtrain::tasks
