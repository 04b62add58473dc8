// The validation loss has no label smoothing: it describes the model, not the way it was trained.
#include "trainer/loop/image_task.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>

#include "data/prepare_images.h"
#include "models/registry.h"
#include "trainer/distributed/cuda_plugin.h"
#include "trainer/optim/precision.h"

namespace dtrain::loop {
namespace {

enum EvaluationSum { kLossSum, kTop1, kTop5, kSamples };

constexpr int64_t kIgnoreNone = -100;

at::Tensor CrossEntropySum(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing) {
  return at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum, kIgnoreNone, label_smoothing);
}

// On a GPU the kernel that normalises writes what autocast would cast to next: the same bits, one pass less. The CPU
// leaves the cast to autocast.
at::ScalarType PreparedType(at::Device device, const std::string& precision) {
  if (device.is_cpu()) return at::kFloat;
  if (precision == "fp16") return at::kHalf;
  return precision == "bf16" ? at::kBFloat16 : at::kFloat;
}

// `contiguous` would leave 1×1 kernels as they are (their order is both), but their strides decide what the
// convolution's gradient looks like, and a gradient of other strides than its place in the reducer's bucket is copied.
void UseChannelsLast(torch::nn::Module& model) {
  at::NoGradGuard no_grad;
  for (auto& parameter : model.parameters()) {
    if (parameter.dim() != 4) continue;
    const at::Tensor relaid = at::empty(parameter.sizes(), parameter.options(), at::MemoryFormat::ChannelsLast);
    parameter.set_data(relaid.copy_(parameter));
  }
}

}  // namespace

std::shared_ptr<models::ImageModel> MakeModel(const config::Config& config, int64_t num_classes, at::Device device) {
  torch::manual_seed(static_cast<uint64_t>(config.batch.seed));
  auto model = models::MakeImageModel(
      config.model.name, {.num_classes = num_classes, .zero_init_residual = config.model.zero_init_residual});
  model->to(device);
  if (config.model.channels_last) UseChannelsLast(*model);
  return model;
}

ImageTask::ImageTask(std::shared_ptr<models::ImageModel> model, const config::Config& config, at::Device device)
    : model_(std::move(model)),
      precision_(config.precision.name),
      label_smoothing_(config.optimizer.label_smoothing),
      device_(device),
      preparation_{config.image.mean, config.image.std, config.model.channels_last, PreparedType(device, precision_)},
      normalisation_(distributed::NormalisationOn(device)) {
  optim::AllowTf32(precision_ == "tf32");
}

at::Tensor ImageTask::Logits(const at::Tensor& images) {
  const at::Tensor prepared = data::PrepareImages(images, preparation_, device_, normalisation_);
  optim::AutocastScope autocast(device_.type(), precision_);
  return model_->forward(prepared).to(at::kFloat);
}

LossSums ImageTask::Loss(const data::Batch& batch) {
  const at::Tensor labels = batch["labels"].to(device_, /*non_blocking=*/true);
  return {CrossEntropySum(Logits(batch["images"]), labels, label_smoothing_), static_cast<double>(batch.size())};
}

at::Tensor ImageTask::EvaluationSums(const data::Batch& batch) {
  const at::Tensor labels = batch["labels"].to(device_, /*non_blocking=*/true);
  const at::Tensor logits = Logits(batch["images"]);
  const int64_t k = std::min<int64_t>(5, logits.size(1));
  const at::Tensor best = std::get<1>(logits.topk(k, 1));
  const at::Tensor hits = best.eq(labels.unsqueeze(1));
  at::Tensor sums = at::zeros({num_evaluation_sums()}, at::TensorOptions(at::kDouble).device(device_));
  sums[kLossSum] = CrossEntropySum(logits, labels, 0);
  sums[kTop1] = hits.slice(1, 0, 1).sum();
  sums[kTop5] = hits.sum();
  sums[kSamples] = batch.size();
  return sums;
}

report::ValPoint ImageTask::MetricsOf(const at::Tensor& sums) const {
  const auto* sum = sums.const_data_ptr<double>();
  report::ValPoint point;
  point.loss = sum[kLossSum] / sum[kSamples];
  point.top1 = 100 * sum[kTop1] / sum[kSamples];
  point.top5 = 100 * sum[kTop5] / sum[kSamples];
  return point;
}

}  // namespace dtrain::loop
