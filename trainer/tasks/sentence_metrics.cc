#include "trainer/tasks/sentence_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace dtrain::tasks {
namespace {

double Sum(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

double Product(std::span<const double> x, std::span<const double> y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

std::vector<double> Centred(std::span<const double> values) {
  const double mean = Sum(values) / static_cast<double>(values.size());
  std::vector<double> centred(values.begin(), values.end());
  for (double& value : centred) value -= mean;
  return centred;
}

// Returns the rank of each value, from 1.
std::vector<double> Ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [values](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t first = 0, end = 0; first < order.size(); first = end) {
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double mean = 0.5 * static_cast<double>(first + 1 + end);
    for (size_t i = first; i < end; ++i) ranks[order[i]] = mean;
  }
  return ranks;
}

bool HasNaN(std::span<const double> values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

}  // namespace

double Accuracy(const ClassCounts& counts) { return 100 * Sum(counts.correct) / Sum(counts.actual); }

double MacroF1(const ClassCounts& counts) {
  double sum = 0, classes = 0;
  for (size_t label = 0; label < counts.actual.size(); ++label) {
    const double both = counts.predicted[label] + counts.actual[label];
    if (both == 0) continue;
    sum += 2 * counts.correct[label] / both;
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

double PearsonCorrelation(std::span<const double> x, std::span<const double> y) {
  const bool is_constant = std::equal(x.begin() + (x.empty() ? 0 : 1), x.end(), x.begin()) ||
                           std::equal(y.begin() + (y.empty() ? 0 : 1), y.end(), y.begin());
  if (is_constant) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> a = Centred(x), b = Centred(y);
  return std::clamp(Product(a, b) / std::sqrt(Product(a, a)) / std::sqrt(Product(b, b)), -1.0, 1.0);
}

double SpearmanCorrelation(std::span<const double> x, std::span<const double> y) {
  if (HasNaN(x) || HasNaN(y)) return std::numeric_limits<double>::quiet_NaN();
  return PearsonCorrelation(Ranks(x), Ranks(y));
}

}  // namespace dtrain::tasks
