// --task=image_regression: one number or several for each image. The model predicts them on a scale on which those of
// the training set have the mean 0 and the standard deviation 1 (weights::NumberScale), so that neither their unit nor
// a column of large numbers decides how fast it learns. The loss is that of this scale; errors are in the labels' unit.
#include <ATen/ATen.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <utility>

#include "trainer/tasks/image_kinds.h"
#include "trainer/tasks/image_task.h"

namespace dtrain::tasks {
namespace {

// The sums of an evaluation for each number, of predictions p and labels y on the scale: there they are near 0 and 1,
// so that differences of sums keep their digits.
enum NumberSum {
  kAbsoluteErrors,
  kSquaredErrors,
  kPredictions,
  kLabelsSum,
  kSquaredPredictions,
  kSquaredLabels,
  kProducts
};
constexpr int64_t kNumNumberSums = kProducts + 1;

// Returns the sum of squared differences from the mean; 0 for values that are all the same, but for their rounding.
double SquaredDifferences(double sum, double sum_of_squares, double count) {
  constexpr double kRounding = 1e-13;
  const double squares = sum_of_squares - sum * sum / count;
  return squares > kRounding * sum_of_squares ? squares : 0;
}

// Returns the columns' names as parts of the names of metrics: letters and digits, and a number after a name that is
// there already.
std::vector<std::string> MetricNames(const std::vector<std::string>& columns, int64_t numbers) {
  std::vector<std::string> names;
  for (size_t i = 0; i < static_cast<size_t>(numbers); ++i) {
    std::string name = i < columns.size() ? columns[i] : std::to_string(i);
    std::ranges::replace_if(
        name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    names.push_back(std::ranges::find(names, name) == names.end() ? name : name + "_" + std::to_string(i));
  }
  return names;
}

class ImageRegressionTask : public ImageTargetTask {
 public:
  ImageRegressionTask(std::shared_ptr<models::ImageModel> model, const DataSizes& sizes, const config::Config& config,
                      at::Device device)
      : ImageTargetTask(std::move(model), sizes, config, device),
        names_(MetricNames(sizes.classes.names, sizes.num_classes)),
        deviations_(ValuesOr(sizes.scale.deviations, 1)),
        mean_C_(OnDevice(ValuesOr(sizes.scale.means, 0))),
        deviation_C_(OnDevice(deviations_)),
        is_smooth_(config.optimizer.loss == "smooth_l1") {}

  std::string best_metric() const override { return "r2"; }

 protected:
  void AddRandomLabels(data::Batch& batch, int64_t samples) const override {
    batch.tensors[kTargets] = at::rand({samples, outputs()});
  }
  at::Tensor Predicted(const at::Tensor& outputs_NC) const override {
    return (outputs_NC * deviation_C_ + mean_C_).to(at::kFloat);
  }
  at::Tensor Wanted(const at::Tensor& targets_NC) const override {
    return ((targets_NC - mean_C_) / deviation_C_).to(at::kFloat);
  }
  // The validation loss is the squared error however the model was trained, so that runs can be compared.
  at::Tensor LossSum(const at::Tensor& outputs_NC, const at::Tensor& wanted_NC, bool training) const override {
    const bool is_smooth = training && is_smooth_;
    const at::Tensor mean = is_smooth ? at::smooth_l1_loss(outputs_NC, wanted_NC) : at::mse_loss(outputs_NC, wanted_NC);
    return mean.mul(outputs_NC.size(0));
  }
  int64_t num_own_sums() const override { return kNumNumberSums * outputs(); }
  void AddTo(at::Tensor own, const at::Tensor& outputs_NC, const at::Tensor& wanted_NC,
             const data::Batch& /*batch*/) const override {
    const at::Tensor p = outputs_NC.to(at::kDouble), y = wanted_NC.to(at::kDouble);
    own.add_(at::cat({(p - y).abs().sum(0), (p - y).square().sum(0), p.sum(0), y.sum(0), p.square().sum(0),
                      y.square().sum(0), (p * y).sum(0)}));
  }
  report::Metrics OwnMetrics(const double* own, double images) const override;

 private:
  std::vector<double> ValuesOr(const std::vector<double>& values, double otherwise) const {
    return values.empty() ? std::vector<double>(static_cast<size_t>(outputs()), otherwise) : values;
  }
  report::Metrics MetricsOfNumber(int64_t number, const double* own, double images) const;
  at::Tensor OnDevice(const std::vector<double>& values) const { return at::tensor(values, at::kDouble).to(device()); }

  const std::vector<std::string> names_;
  const std::vector<double> deviations_;
  const at::Tensor mean_C_, deviation_C_;  // float64 on the device
  const bool is_smooth_;
};

// R² is that of sklearn.metrics.r2_score: of labels that are all the same, 1 if they are predicted exactly, else 0.
// Pearson's correlation is NaN if one of the two is constant.
report::Metrics ImageRegressionTask::MetricsOfNumber(int64_t number, const double* own, double images) const {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto metric = [](const char* name, double value, bool higher_is_better) {
    return report::Metric{.name = name, .value = value, .decimals = 4, .higher_is_better = higher_is_better};
  };
  const auto sum = [&](NumberSum which) { return own[which * outputs() + number]; };
  const double unit = deviations_[static_cast<size_t>(number)], squared_errors = sum(kSquaredErrors);
  const double of_labels = SquaredDifferences(sum(kLabelsSum), sum(kSquaredLabels), images);
  const double of_predictions = SquaredDifferences(sum(kPredictions), sum(kSquaredPredictions), images);
  const double both = sum(kProducts) - sum(kPredictions) * sum(kLabelsSum) / images;
  const double unexplained = of_labels > 0 ? squared_errors / of_labels : squared_errors > 0 ? 1 : 0;
  const bool varies = of_labels > 0 && of_predictions > 0;
  return {metric("mae", unit * sum(kAbsoluteErrors) / images, false),
          metric("rmse", unit * std::sqrt(squared_errors / images), false),
          metric("r2", images < 2 ? nan : 1 - unexplained, true),
          metric("pearson", varies ? both / std::sqrt(of_labels) / std::sqrt(of_predictions) : nan, true)};
}

// The mean of each metric over the numbers, and if there are a few, each number's own.
report::Metrics ImageRegressionTask::OwnMetrics(const double* own, double images) const {
  constexpr int64_t kMostNamed = 16;
  report::Metrics means, named;
  for (int64_t number = 0; number < outputs(); ++number) {
    report::Metrics metrics = MetricsOfNumber(number, own, images);
    means.resize(metrics.size());
    for (size_t i = 0; i < metrics.size(); ++i) {
      const double mean = means[i].value + metrics[i].value / static_cast<double>(outputs());
      means[i] = metrics[i];
      means[i].value = mean;
      metrics[i].name += "_" + names_[static_cast<size_t>(number)];
      named.push_back(std::move(metrics[i]));
    }
  }
  if (outputs() > 1 && outputs() <= kMostNamed) means.insert(means.end(), named.begin(), named.end());
  return means;
}

}  // namespace

const TaskKind& ImageRegression() {
  return ImageKindOf<ImageRegressionTask>("image_regression", data::LabelKind::kNumbers);
}

}  // namespace dtrain::tasks
