#include "trainer/tasks/image_task.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "data/image/prepare_images.h"
#include "data/pipeline/device_feed.h"
#include "data/pipeline/sampler.h"
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
  return mixed.Mix([&](const at::Tensor& labels) {
    return CrossEntropySum(logits, labels, options.label_smoothing, options.class_weights);
  });
}

// Each class is a binary question. Its target is smoothed as in the cross entropy (timm.loss.BinaryCrossEntropy).
at::Tensor BinaryCrossEntropyOf(const at::Tensor& logits, const MixedLabels& mixed, const CriterionOptions& options) {
  const double off = options.label_smoothing / static_cast<double>(logits.size(1));
  const at::Tensor targets = mixed.Mix([&](const at::Tensor& labels) {
    return at::full_like(logits, off).scatter_(1, labels.unsqueeze(1), 1 - options.label_smoothing + off);
  });
  return BinaryCrossEntropySum(logits, targets, options);
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

CriterionOptions::CriterionOptions(const config::OptimizerConfig& config)
    : label_smoothing(config.label_smoothing), bce_threshold(config.bce_threshold), sums_classes(config.bce_sum) {}

at::Tensor BinaryCrossEntropySum(const at::Tensor& logits, at::Tensor targets, const CriterionOptions& options) {
  if (options.bce_threshold) targets = targets.gt(*options.bce_threshold).to(logits.scalar_type());
  const at::Tensor sum =
      at::binary_cross_entropy_with_logits(logits, targets, {}, options.class_weights, at::Reduction::Sum);
  return options.sums_classes ? sum : sum / static_cast<double>(logits.size(1));
}

ImageTask::ImageTask(std::shared_ptr<models::ImageModel> model, int64_t outputs, const config::Config& config,
                     at::Device device)
    : model_(std::move(model)),
      outputs_(outputs),
      precision_(optim::PrecisionNamed(config.precision.name)),
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

at::Tensor ImageTask::TrainingImages(const data::Batch& batch) const {
  const at::Tensor images = Normalised(batch["images"]);
  return mixes() ? MixedImages(images, batch, mix_) : images;
}

MixedLabels ImageTask::TrainingLabels(const data::Batch& batch, const char* name) const {
  MixedLabels labels{batch[name].to(device_, /*non_blocking=*/true)};
  if (mixes()) std::tie(labels.own_share, labels.other_share) = LabelShares(batch);
  return labels;
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

data::Batch ImageTask::RandomBatch(int64_t samples) const {
  data::Batch batch;
  batch.tensors["images"] = at::randint(256, {samples, largest_size_, largest_size_, 3}, at::kByte);
  batch.on_host["index"] = at::arange(samples);
  AddRandomLabels(batch, samples);
  if (mixes()) AddMix(batch, {});
  return data::CopyToDevice(std::move(batch), device_);
}

at::Tensor ImageTask::Pictures(const data::Batch& batch) const {
  at::NoGradGuard no_grad;
  const at::Tensor images = TrainingImages(batch);
  const auto of_channels = [](const std::vector<double>& values) {
    return at::tensor(values, at::kFloat).view({1, -1, 1, 1});
  };
  const at::Tensor pixels =
      images.cpu().to(at::kFloat) * of_channels(preparation_.std) + of_channels(preparation_.mean);
  return pixels.mul(255).round().clamp(0, 255).to(at::kByte).permute({0, 2, 3, 1}).contiguous();
}

ImageClassificationTask::ImageClassificationTask(std::shared_ptr<models::ImageModel> model, int64_t num_classes,
                                                 const config::Config& config, at::Device device)
    : ImageTask(std::move(model), num_classes, config, device),
      criterion_(kCriteria.at(config.optimizer.loss)),
      criterion_options_(config.optimizer) {}

LossSums ImageClassificationTask::Loss(const data::Batch& batch) {
  const MixedLabels mixed = TrainingLabels(batch, "labels");
  const at::Tensor images = TrainingImages(batch);
  const Teacher* teacher = its_teacher();
  const at::Tensor taught = teacher != nullptr ? teacher->Logits(images) : at::Tensor();
  const std::vector<at::Tensor> heads =
      teacher != nullptr ? LogitsOfEachHead(images) : std::vector<at::Tensor>{LogitsOfNormalised(images)};
  const at::Tensor& logits = heads.front();
  LossSums sums = SumsOf(criterion_(logits, mixed, criterion_options_), batch.size());
  const at::Tensor& weights = criterion_options_.class_weights;
  const at::Tensor of_samples = weights.defined() ? weights.index_select(0, mixed.labels) : at::Tensor();
  if (teacher != nullptr) {
    sums.loss_sum = teacher->Combined(sums.loss_sum, teacher->Loss(heads.back(), taught), of_samples);
  }
  if (mixes()) return sums;
  if (weights.defined()) sums.weight = of_samples.sum();
  sums.hits = logits.detach().argmax(1).eq(mixed.labels).sum();
  return sums;
}

void ImageClassificationTask::UseClassWeights(const std::vector<double>& weights) {
  if (!weights.empty()) criterion_options_.class_weights = at::tensor(weights, at::kFloat).to(device());
}

void ImageClassificationTask::AddRandomLabels(data::Batch& batch, int64_t samples) const {
  batch.tensors["labels"] = at::randint(outputs(), {samples}, at::kLong);
}

int64_t ImageClassificationTask::NumConfusions() const {
  return counts_confusions_ && outputs() <= report::kMostClassesConfused ? outputs() * outputs() : 0;
}

int64_t ImageClassificationTask::num_evaluation_sums() const { return NumConfusions() + kNumEvaluationSums; }

at::Tensor ImageClassificationTask::EvaluationSums(const data::Batch& batch) {
  const at::Tensor labels = batch["labels"].to(device(), /*non_blocking=*/true);
  const at::Tensor logits = LogitsOfNormalised(Normalised(batch["images"]));
  Observe({batch["index"], logits, labels});
  const int64_t k = std::min<int64_t>(kTop5Classes, logits.size(1));
  const at::Tensor best = LikeliestClasses(logits, k);
  const at::Tensor hits = best.eq(labels.unsqueeze(1));
  const int64_t confusions = NumConfusions();
  const at::Tensor all = at::zeros({num_evaluation_sums()}, at::TensorOptions(at::kDouble).device(device()));
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
report::Metrics ImageClassificationTask::MetricsOf(const at::Tensor& sums) const {
  const auto* sum = sums.const_data_ptr<double>() + NumConfusions();
  const auto percent = [sum](EvaluationSum hits) { return 100 * sum[hits] / sum[kSamples]; };
  report::Metrics metrics = {
      {"top1", percent(kTop1), /*decimals=*/2, /*higher_is_better=*/true, "  top1", /*table_decimals=*/3}};
  if (outputs() > kTop5Classes) {  // of five classes one is always among the first five
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

report::Metrics ImageClassificationTask::TrainingMetrics(double hits, double weight) const {
  if (mixes() || criterion_options_.class_weights.defined()) return {};
  return {{.name = "top1", .value = 100 * hits / weight, .decimals = 2, .higher_is_better = true}};
}

std::vector<int64_t> ImageClassificationTask::ConfusionsOf(const at::Tensor& sums) const {
  const auto* sum = sums.const_data_ptr<double>();
  return {sum, sum + NumConfusions()};
}

LossSums ImageTargetTask::Loss(const data::Batch& batch) {
  const at::Tensor wanted =
      TrainingLabels(batch, kTargets).Mix([this](const at::Tensor& targets_NC) { return Wanted(targets_NC); });
  return SumsOf(LossSum(LogitsOfNormalised(TrainingImages(batch)), wanted, /*training=*/true), batch.size());
}

at::Tensor ImageTargetTask::EvaluationSums(const data::Batch& batch) {
  const at::Tensor targets = batch[kTargets].to(device(), /*non_blocking=*/true);
  const at::Tensor outputs_NC = LogitsOfNormalised(Normalised(batch["images"])), wanted = Wanted(targets);
  Observe({batch["index"], Predicted(outputs_NC), targets});
  at::Tensor sums = at::zeros({num_evaluation_sums()}, at::TensorOptions(at::kDouble).device(device()));
  sums[0] = LossSum(outputs_NC, wanted, /*training=*/false);
  sums[-1] = batch.size();
  AddTo(sums.slice(0, 1, -1), outputs_NC, wanted, batch);
  return sums;
}

report::Metrics ImageTargetTask::MetricsOf(const at::Tensor& sums) const {
  const auto* sum = sums.const_data_ptr<double>();
  const double images = sum[sums.size(0) - 1];
  report::Metrics metrics = OwnMetrics(sum + 1, images);
  metrics.insert(metrics.begin(), report::Metric{.name = "loss", .value = sum[0] / images, .decimals = 4});
  return metrics;
}

}  // namespace dtrain::tasks
