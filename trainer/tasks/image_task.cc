#include "trainer/tasks/image_task.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "data/image/codecs.h"
#include "data/image/prepare_images.h"
#include "data/pipeline/device_feed.h"
#include "data/pipeline/sampler.h"
#include "models/layers.h"
#include "models/registry.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/tasks/image_mix.h"
#include "trainer/weights/module_state.h"

namespace dtrain::tasks {
namespace {

constexpr int64_t kTop5Classes = 5;

// Sums of an evaluation, behind the confusions.
enum Hits {
  kTop1,
  kTop5,
  kNumHits,
};

// The cross entropy is linear in the target, so the loss of mixed labels is the weighted sum of two losses.
at::Tensor CrossEntropyOf(const at::Tensor& logits, const MixedLabels& mixed, const CriterionOptions& options) {
  return mixed.Mix([&](const at::Tensor& labels) {
    return CrossEntropySum(logits, labels, options.config.label_smoothing, options.class_weights);
  });
}

// Each class is a binary question. Its target is smoothed as in the cross entropy (timm.loss.BinaryCrossEntropy).
at::Tensor BinaryCrossEntropyOf(const at::Tensor& logits, const MixedLabels& mixed, const CriterionOptions& options) {
  const double off = options.config.label_smoothing / static_cast<double>(logits.size(1));
  const at::Tensor targets = mixed.Mix([&](const at::Tensor& labels) {
    return at::full_like(logits, off).scatter_(1, labels.unsqueeze(1), 1 - options.config.label_smoothing + off);
  });
  return BinaryCrossEntropySum(logits, targets, options);
}

// By the names of config::Losses().
const std::map<std::string, Criterion> kCriteria = {
    {"ce", CrossEntropyOf},
    {"bce", BinaryCrossEntropyOf},
};

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
  models::UseKernels(*model, device::KernelsOn(device));
  return model;
}

at::Tensor BinaryCrossEntropySum(const at::Tensor& logits, at::Tensor targets, const CriterionOptions& options) {
  if (options.config.bce_threshold) targets = targets.gt(*options.config.bce_threshold).to(logits.scalar_type());
  const at::Tensor sum =
      at::binary_cross_entropy_with_logits(logits, targets, {}, options.class_weights, at::Reduction::Sum);
  return options.config.bce_sum ? sum : sum / static_cast<double>(logits.size(1));
}

ImageTask::ImageTask(std::shared_ptr<models::ImageModel> model, const DataSizes& sizes, const config::Config& config,
                     at::Device device)
    : model_(std::move(model)),
      outputs_(sizes.num_classes),
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

data::Batch ImageTask::RandomBatch(int64_t samples) const {
  data::Batch batch;
  batch.tensors["images"] = at::randint(256, {samples, largest_size_, largest_size_, 3}, at::kByte);
  batch.on_host["index"] = at::arange(samples);
  AddRandomLabels(batch, samples);
  if (mixes()) AddMix(batch, {});
  return data::CopyToDevice(Prepared(std::move(batch)), device_);
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

report::Picture PictureGrid(const at::Tensor& images) {
  constexpr int64_t kMostPictures = 64, kColumns = 8, kGap = 2;
  const int64_t count = std::min(images.size(0), kMostPictures);
  const int64_t columns = std::min(count, kColumns), rows = (count + columns - 1) / columns;
  const int64_t height = images.size(1), width = images.size(2);
  at::Tensor grid = at::zeros({rows * (height + kGap) - kGap, columns * (width + kGap) - kGap, 3}, at::kByte);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t top = i / columns * (height + kGap), left = i % columns * (width + kGap);
    grid.slice(0, top, top + height).slice(1, left, left + width).copy_(images[i]);
  }
  const std::vector<uint8_t> png = data::WritePng(grid.const_data_ptr<uint8_t>(), grid.size(1), grid.size(0));
  return {static_cast<int>(grid.size(1)), static_cast<int>(grid.size(0)), {png.begin(), png.end()}};
}

LossSums ImageTargetTask::Loss(const data::Batch& batch) {
  const at::Tensor wanted =
      TrainingLabels(batch, target_name()).Mix([this](const at::Tensor& targets) { return Wanted(targets); });
  return SumsOf(LossSum(LogitsOfNormalised(TrainingImages(batch)), wanted, /*training=*/true), batch.size());
}

void ImageTargetTask::AddEvaluationSums(const data::Batch& batch, at::Tensor sums) {
  const at::Tensor targets = batch[target_name()].to(device(), /*non_blocking=*/true);
  const at::Tensor outputs_NC = LogitsOfNormalised(Normalised(batch["images"])), wanted = Wanted(targets);
  Observe({batch["index"], Predicted(outputs_NC), targets});
  AddTo(sums.slice(0, 0, num_own_sums()), outputs_NC, wanted, batch);
  sums[-2] += LossSum(outputs_NC, wanted, /*training=*/false);
  sums[-1] += batch.size();
}

report::Metrics ImageTargetTask::MetricsOf(const at::Tensor& sums) const {
  const auto* own = sums.const_data_ptr<double>();
  const double loss_sum = own[num_own_sums()], images = own[num_own_sums() + 1];
  report::Metrics metrics = OwnMetrics(own, images);
  metrics.insert(metrics.begin(), report::Metric{.name = "loss", .value = loss_sum / images});
  return metrics;
}

ImageClassificationTask::ImageClassificationTask(std::shared_ptr<models::ImageModel> model, const DataSizes& sizes,
                                                 const config::Config& config, at::Device device)
    : ImageTargetTask(std::move(model), sizes, config, device),
      criterion_(kCriteria.at(config.optimizer.loss)),
      criterion_options_{config.optimizer} {
  if (config.run.mode == "train" && !config.teacher.weights.empty())
    teacher_ = std::make_unique<Teacher>(config, sizes, device);
}

LossSums ImageClassificationTask::Loss(const data::Batch& batch) {
  const MixedLabels mixed = TrainingLabels(batch, target_name());
  const at::Tensor images = TrainingImages(batch);
  const at::Tensor taught = teacher_ ? teacher_->Logits(images) : at::Tensor();
  const std::vector<at::Tensor> heads =
      teacher_ ? LogitsOfEachHead(images) : std::vector<at::Tensor>{LogitsOfNormalised(images)};
  const at::Tensor& logits = heads.front();
  LossSums sums = SumsOf(criterion_(logits, mixed, criterion_options_), batch.size());
  const at::Tensor& weights = criterion_options_.class_weights;
  const at::Tensor of_samples = weights.defined() ? weights.index_select(0, mixed.labels) : at::Tensor();
  if (teacher_) sums.loss_sum = teacher_->Combined(sums.loss_sum, teacher_->Loss(heads.back(), taught), of_samples);
  if (mixes()) return sums;
  if (weights.defined()) sums.weight = of_samples.sum();
  sums.hits = logits.detach().argmax(1).eq(mixed.labels).sum();
  return sums;
}

models::ForwardCost ImageClassificationTask::CostOfSample() const {
  models::ForwardCost cost = ImageTask::CostOfSample();
  if (!teacher_) return cost;
  cost.multiply_adds += teacher_->Cost().multiply_adds;
  cost.moved_elements += teacher_->Cost().moved_elements;
  return cost;
}

void ImageClassificationTask::AddRandomLabels(data::Batch& batch, int64_t samples) const {
  batch.tensors[target_name()] = at::randint(outputs(), {samples}, at::kLong);
}

// The validation loss has no label smoothing: it describes the model, not the way it was trained. Loss has the
// criterion of training, which knows the shares of mixed labels.
at::Tensor ImageClassificationTask::LossSum(const at::Tensor& logits_NC, const at::Tensor& labels,
                                            bool /*training*/) const {
  return CrossEntropySum(logits_NC, labels);
}

int64_t ImageClassificationTask::num_own_sums() const { return num_confusions_ + kNumHits; }

void ImageClassificationTask::AddTo(at::Tensor own, const at::Tensor& logits_NC, const at::Tensor& labels,
                                    const data::Batch& /*batch*/) const {
  const at::Tensor best = LikeliestClasses(logits_NC, std::min(kTop5Classes, outputs()));
  const at::Tensor hits = best.eq(labels.unsqueeze(1));
  if (num_confusions_ > 0) {
    const at::Tensor cells = labels * outputs() + best.select(1, 0);
    own.slice(0, 0, num_confusions_).index_add_(0, cells, at::ones_like(cells, own.options()));
  }
  own[num_confusions_ + kTop1] += hits.slice(1, 0, 1).sum();
  own[num_confusions_ + kTop5] += hits.sum();
}

report::Metrics ImageClassificationTask::OwnMetrics(const double* own, double images) const {
  const auto metric = [&](const char* name, Hits hits, const char* heading, int table_decimals) {
    report::Metric percent = Percent(name, 100 * own[num_confusions_ + hits] / images);
    percent.table_heading = heading;
    percent.table_decimals = table_decimals;
    return percent;
  };
  report::Metrics metrics = {metric("top1", kTop1, "  top1", 3)};
  // Of five classes one is always among the first five.
  if (outputs() > kTop5Classes) metrics.push_back(metric("top5", kTop5, "    top5", 2));
  if (num_confusions_ == 0) return metrics;
  const ClassCounts counts = CountsIn({own, own + num_confusions_});
  metrics.push_back(Percent("balanced_accuracy", BalancedAccuracy(counts)));
  metrics.push_back(Percent("f1", MacroF1(counts)));
  return metrics;
}

// The headings and their order are those of the AWS ImageNet script, whose tables people's plotting scripts parse.
report::Metrics ImageClassificationTask::MetricsOf(const at::Tensor& sums) const {
  report::Metrics metrics = ImageTargetTask::MetricsOf(sums);
  metrics.front().table_heading = "     loss";
  metrics.front().table_decimals = 2;
  const auto without_heading = std::ranges::find(metrics, "", &report::Metric::table_heading);
  std::rotate(metrics.begin(), metrics.begin() + 1, without_heading);
  return metrics;
}

report::Metrics ImageClassificationTask::TrainingMetrics(double hits, double weight) const {
  if (mixes() || criterion_options_.class_weights.defined()) return {};
  return {Percent("top1", 100 * hits / weight)};
}

}  // namespace dtrain::tasks
