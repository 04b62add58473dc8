#include "trainer/tasks/image_task.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "data/image/prepare_images.h"
#include "data/pipeline/device_feed.h"
#include "data/pipeline/size_schedule.h"
#include "models/layers.h"
#include "models/registry.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/report/confusions.h"
#include "trainer/tasks/image_mix.h"
#include "trainer/tasks/likeliest_classes.h"
#include "trainer/tasks/metric_formulas.h"
#include "trainer/weights/fitting_model.h"
#include "trainer/weights/initial_weights.h"

namespace dtrain::tasks {
namespace {

// Indices of the sums. If confusions are counted, they come before these.
enum EvaluationSum { kLossSum, kTop1, kTop5, kSamples, kNumEvaluationSums };

constexpr int64_t kIgnoreNone = -100;
constexpr int64_t kTop5Classes = 5;

at::Tensor CrossEntropySum(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing,
                           const at::Tensor& weights) {
  return at::cross_entropy_loss(logits, labels, weights, at::Reduction::Sum, kIgnoreNone, label_smoothing);
}

// The cross entropy is linear in the target, so the loss of mixed labels is the weighted sum of two losses.
at::Tensor CrossEntropyOf(const at::Tensor& logits, const MixedLabels& mixed, const CriterionOptions& options) {
  const auto loss = [&](const at::Tensor& labels) {
    return CrossEntropySum(logits, labels, options.label_smoothing, options.class_weights);
  };
  if (!mixed.own_share.defined()) return loss(mixed.labels);
  return loss(mixed.labels) * mixed.own_share + loss(mixed.labels.roll(1)) * mixed.other_share;
}

// Each class is a binary question. Its target is smoothed as in the cross entropy, and the loss of a sample is the mean
// over the classes, or their sum (timm.loss.BinaryCrossEntropy).
at::Tensor BinaryCrossEntropyOf(const at::Tensor& logits, const MixedLabels& mixed, const CriterionOptions& options) {
  const auto classes = static_cast<double>(logits.size(1));
  const double off = options.label_smoothing / classes;
  const auto targets_of = [&](const at::Tensor& labels) {
    return at::full_like(logits, off).scatter_(1, labels.unsqueeze(1), 1 - options.label_smoothing + off);
  };
  at::Tensor targets = targets_of(mixed.labels);
  if (mixed.own_share.defined()) {
    targets = targets * mixed.own_share + targets_of(mixed.labels.roll(1)) * mixed.other_share;
  }
  if (options.bce_threshold) targets = targets.gt(*options.bce_threshold).to(logits.scalar_type());
  const at::Tensor sum = at::binary_cross_entropy_with_logits(logits, targets, {}, {}, at::Reduction::Sum);
  return options.sums_classes ? sum : sum / classes;
}

// By the names of config::Losses().
const std::map<std::string, Criterion> kCriteria = {{"ce", CrossEntropyOf}, {"bce", BinaryCrossEntropyOf}};

// On a GPU the normalising kernel already writes the type that autocast would cast to next, which gives the same bits
// with one pass less. On the CPU autocast casts.
at::ScalarType PreparedType(at::Device device, const optim::Precision& precision) {
  return device.is_cpu() ? at::kFloat : precision.products;
}

// Makes new tensors, because `contiguous` would leave 1×1 kernels as they are: these count as both formats. Yet their
// strides become those of the gradient, and a gradient whose strides differ from its place in the reducer's bucket is
// copied in every step.
void UseChannelsLast(torch::nn::Module& model) {
  at::NoGradGuard no_grad;
  for (auto& parameter : model.parameters()) {
    if (parameter.dim() != 4) continue;
    const at::Tensor relaid = at::empty(parameter.sizes(), parameter.options(), at::MemoryFormat::ChannelsLast);
    parameter.set_data(relaid.copy_(parameter));
  }
}

int64_t LargestSize(const config::ImageConfig& image) {
  int64_t largest = image.size;
  const data::SizeSchedule sizes = *data::ParseSizeSchedule(image.size_schedule);
  for (const data::SizeChange& change : sizes) largest = std::max(largest, change.size);
  return largest;
}

}  // namespace

std::shared_ptr<models::ImageModel> MakeModel(const config::Config& config, int64_t num_classes, at::Device device) {
  torch::manual_seed(static_cast<uint64_t>(config.batch.seed));
  const models::ImageModelOptions options{.num_classes = num_classes,
                                          .zero_init_residual = config.model.zero_init_residual,
                                          .dropout = config.model.dropout,
                                          .drop_path = config.model.drop_path};
  auto model = weights::MadeIfItFits([&] { return models::MakeImageModel(config.model.name, options); });
  models::ChangeNorms(*model, config.model.bn_eps, config.model.bn_momentum);
  model->to(device);
  if (config.model.channels_last) UseChannelsLast(*model);
  if (const auto* kernels = device::NormKernelsOn(device)) models::UseNormKernels(*model, *kernels);
  if (const auto* kernels = device::StemKernelsOn(device)) models::UseStemKernels(*model, *kernels);
  if (const auto* kernels = device::DepthwiseKernelsOn(device)) models::UseDepthwiseKernels(*model, *kernels);
  return model;
}

std::shared_ptr<models::ImageModel> MakeTrainedModel(const config::Config& config,
                                                     const weights::TrainedWeights& weights, at::Device device) {
  auto model = MakeModel(config, weights::NumClassesFor(config, weights), device);
  weights::ApplyInitialWeights(weights.tensors, config.model, *model);
  return model;
}

ImageTask::ImageTask(std::shared_ptr<models::ImageModel> model, int64_t num_classes, const config::Config& config,
                     at::Device device)
    : model_(std::move(model)),
      num_classes_(num_classes),
      precision_(optim::PrecisionNamed(config.precision.name)),
      criterion_(kCriteria.at(config.optimizer.loss)),
      criterion_options_{.label_smoothing = config.optimizer.label_smoothing,
                         .bce_threshold = config.optimizer.bce_threshold,
                         .sums_classes = config.optimizer.bce_sum},
      largest_size_(LargestSize(config.image)),
      device_(device),
      preparation_{config.image.mean, config.image.std, config.model.channels_last, PreparedType(device, precision_)},
      normalisation_(device::NormalisationOn(device)),
      mix_(MixOptionsOf(config.image)) {
  optim::AllowTf32(precision_.tf32);
}

at::Tensor ImageTask::Normalised(const at::Tensor& images) const {
  return data::PrepareImages(images, preparation_, device_, normalisation_);
}

at::Tensor ImageTask::Logits(const at::Tensor& images) { return LogitsOfNormalised(Normalised(images)); }

at::Tensor ImageTask::LogitsOfNormalised(const at::Tensor& images) {
  optim::AutocastScope autocast(device_.type(), precision_);
  return model_->forward(images).to(at::kFloat);
}

std::vector<at::Tensor> ImageTask::LogitsOfEachHead(const at::Tensor& images) {
  optim::AutocastScope autocast(device_.type(), precision_);
  std::vector<at::Tensor> logits = model_->ClassifyEach(model_->Features(images));
  for (at::Tensor& of_head : logits) of_head = of_head.to(at::kFloat);
  return logits;
}

at::Tensor ImageTask::Features(const at::Tensor& images) {
  const at::Tensor normalised = Normalised(images);
  optim::AutocastScope autocast(device_.type(), precision_);
  return model_->Features(normalised).to(at::kFloat);
}

LossSums ImageTask::Loss(const data::Batch& batch) {
  MixedLabels labels{batch["labels"].to(device_, /*non_blocking=*/true)};
  at::Tensor images = Normalised(batch["images"]);
  if (mix_.enabled()) {
    images = MixedImages(images, batch, mix_);
    std::tie(labels.own_share, labels.other_share) = LabelShares(batch);
  }
  const at::Tensor taught = teacher_ ? teacher_->Logits(images) : at::Tensor();
  const std::vector<at::Tensor> heads =
      teacher_ ? LogitsOfEachHead(images) : std::vector<at::Tensor>{LogitsOfNormalised(images)};
  const at::Tensor& logits = heads.front();
  LossSums sums = SumsOf(criterion_(logits, labels, criterion_options_), batch.size());
  const at::Tensor& weights = criterion_options_.class_weights;
  const at::Tensor of_samples = weights.defined() ? weights.index_select(0, labels.labels) : at::Tensor();
  if (teacher_) sums.loss_sum = teacher_->Combined(sums.loss_sum, teacher_->Loss(heads.back(), taught), of_samples);
  if (mix_.enabled()) return sums;
  if (weights.defined()) sums.weight = of_samples.sum();
  sums.hits = logits.detach().argmax(1).eq(labels.labels).sum();
  return sums;
}

LossSums ImageTask::SumsOf(const at::Tensor& loss_sum, int64_t images) const {
  const at::Tensor count = at::full({}, images, at::TensorOptions(at::kFloat).device(device_));
  return {loss_sum, count, count};
}

models::ForwardCost ImageTask::CostOfSample() const {
  models::ForwardCost cost = model_->Cost(largest_size_);
  if (!teacher_) return cost;
  cost.multiply_adds += teacher_->Cost().multiply_adds;
  cost.moved_elements += teacher_->Cost().moved_elements;
  return cost;
}

void ImageTask::UseClassWeights(const std::vector<double>& weights) {
  if (!weights.empty()) criterion_options_.class_weights = at::tensor(weights, at::kFloat).to(device_);
}

data::Batch ImageTask::RandomBatch(int64_t samples) const {
  data::Batch batch;
  batch.tensors["images"] = at::randint(256, {samples, largest_size_, largest_size_, 3}, at::kByte);
  batch.tensors["labels"] = at::randint(num_classes_, {samples}, at::kLong);
  batch.on_host["index"] = at::arange(samples);
  if (mix_.enabled()) AddMix(batch, {});
  return data::CopyToDevice(std::move(batch), device_);
}

at::Tensor ImageTask::Pictures(const data::Batch& batch) const {
  at::NoGradGuard no_grad;
  at::Tensor images = Normalised(batch["images"]);
  if (mix_.enabled()) images = MixedImages(images, batch, mix_);
  const auto of_channels = [](const std::vector<double>& values) {
    return at::tensor(values, at::kFloat).view({1, -1, 1, 1});
  };
  const at::Tensor pixels =
      images.cpu().to(at::kFloat) * of_channels(preparation_.std) + of_channels(preparation_.mean);
  return pixels.mul(255).round().clamp(0, 255).to(at::kByte).permute({0, 2, 3, 1}).contiguous();
}

int64_t ImageTask::NumFeatures() const { return model_->NumFeatures(); }

int64_t ImageTask::NumConfusions() const {
  return counts_confusions_ && num_classes_ <= report::kMostClassesConfused ? num_classes_ * num_classes_ : 0;
}

int64_t ImageTask::num_evaluation_sums() const { return NumConfusions() + kNumEvaluationSums; }

at::Tensor ImageTask::EvaluationSums(const data::Batch& batch) {
  const at::Tensor labels = batch["labels"].to(device_, /*non_blocking=*/true);
  const at::Tensor logits = Logits(batch["images"]);
  if (observer_) observer_({batch["index"], logits, labels});
  const int64_t k = std::min<int64_t>(kTop5Classes, logits.size(1));
  const at::Tensor best = LikeliestClasses(logits, k);
  const at::Tensor hits = best.eq(labels.unsqueeze(1));
  const int64_t confusions = NumConfusions();
  const at::Tensor all = at::zeros({num_evaluation_sums()}, at::TensorOptions(at::kDouble).device(device_));
  if (confusions > 0) {
    const at::Tensor cells = labels * logits.size(1) + best.select(1, 0);
    all.slice(0, 0, confusions).index_add_(0, cells, at::ones_like(cells, all.options()));
  }
  at::Tensor sums = all.slice(0, confusions);
  // The validation loss has no label smoothing: it describes the model, not the way it was trained.
  sums[kLossSum] = CrossEntropySum(logits, labels, 0, {});
  sums[kTop1] = hits.slice(1, 0, 1).sum();
  sums[kTop5] = hits.sum();
  sums[kSamples] = batch.size();
  return all;
}

// The headings are those of the AWS ImageNet script, whose tables people's plotting scripts parse.
report::Metrics ImageTask::MetricsOf(const at::Tensor& sums) const {
  const auto* sum = sums.const_data_ptr<double>() + NumConfusions();
  const auto percent = [sum](EvaluationSum hits) { return 100 * sum[hits] / sum[kSamples]; };
  report::Metrics metrics = {
      {"top1", percent(kTop1), /*decimals=*/2, /*higher_is_better=*/true, "  top1", /*table_decimals=*/3}};
  if (num_classes_ > kTop5Classes) {  // of five classes one is always among the first five
    metrics.push_back(
        {"top5", percent(kTop5), /*decimals=*/2, /*higher_is_better=*/true, "    top5", /*table_decimals=*/2});
  }
  metrics.push_back({"loss", sum[kLossSum] / sum[kSamples], /*decimals=*/4, /*higher_is_better=*/false, "     loss",
                     /*table_decimals=*/2});
  if (NumConfusions() > 0) {
    const ClassCounts counts = CountsIn(ConfusionsOf(sums));
    metrics.push_back(
        {.name = "balanced_accuracy", .value = BalancedAccuracy(counts), .decimals = 2, .higher_is_better = true});
    metrics.push_back({.name = "f1", .value = MacroF1(counts), .decimals = 2, .higher_is_better = true});
  }
  return metrics;
}

report::Metrics ImageTask::TrainingMetrics(double hits, double weight) const {
  if (mix_.enabled() || criterion_options_.class_weights.defined()) return {};
  return {{.name = "top1", .value = 100 * hits / weight, .decimals = 2, .higher_is_better = true}};
}

std::vector<int64_t> ImageTask::ConfusionsOf(const at::Tensor& sums) const {
  const auto* sum = sums.const_data_ptr<double>();
  return {sum, sum + NumConfusions()};
}

}  // namespace dtrain::tasks
