// Image classification. Training minimises the cross entropy, or the binary cross entropy of each class (--loss=bce);
// evaluation reports top-1, top-5 and the plain cross entropy.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/image/mix.h"
#include "data/image/prepare_images.h"
#include "models/image_model.h"
#include "trainer/config/config.h"
#include "trainer/optim/precision.h"
#include "trainer/tasks/task.h"
#include "trainer/tasks/teacher.h"
#include "trainer/weights/inference_weights.h"

namespace dtrain::tasks {

// Makes the model of `config` with `num_classes` outputs, its weights drawn from --seed, on `device` and in the memory
// format of --channels_last.
std::shared_ptr<models::ImageModel> MakeModel(const config::Config& config, int64_t num_classes, at::Device device);

// Makes the model with trained weights.
std::shared_ptr<models::ImageModel> MakeTrainedModel(const config::Config& config,
                                                     const weights::TrainedWeights& weights, at::Device device);

// What a training criterion knows beside logits and labels.
struct CriterionOptions {
  double label_smoothing = 0;
  std::optional<double> bce_threshold = {};
  bool sums_classes = false;
  at::Tensor class_weights = {};  // float32, one for each class, on the device; undefined: all are 1
};

// The labels of mixed images are `labels` and those of the images before them, each with its share (a float32 scalar on
// the device, undefined if they are not mixed).
struct MixedLabels {
  at::Tensor labels, own_share = {}, other_share = {};
};

// Returns the loss of a training batch, summed over its samples.
using Criterion = at::Tensor (*)(const at::Tensor& logits, const MixedLabels& labels, const CriterionOptions& options);

class ImageTask : public Task {
 public:
  // `num_classes` are the outputs of the model. Training batches come with their mix (MixBatches).
  ImageTask(std::shared_ptr<models::ImageModel> model, int64_t num_classes, const config::Config& config,
            at::Device device);

  torch::nn::Module& module() override { return *model_; }
  at::Device device() const override { return device_; }
  torch::nn::Module* teacher() const override { return teacher_ ? &teacher_->model() : nullptr; }
  // From now on Loss is also that of a teacher. Null: it is not.
  void LearnFrom(std::unique_ptr<const Teacher> teacher) { teacher_ = std::move(teacher); }
  LossSums Loss(const data::Batch& batch) override;
  double NominalWeight(int64_t samples) const override { return static_cast<double>(samples); }
  bool weight_varies() const override { return criterion_options_.class_weights.defined(); }
  void UseClassWeights(const std::vector<double>& weights) override;
  report::SpeedUnit speed_unit() const override { return report::SpeedUnit::kImages; }
  std::string WhyNotRecorded() const override { return ""; }
  models::ForwardCost CostOfSample() const override;
  data::Batch RandomBatch(int64_t samples) const override;
  at::Tensor Pictures(const data::Batch& batch) const override;
  at::Tensor EvaluationSums(const data::Batch& batch) override;
  int64_t num_evaluation_sums() const override;
  report::Metrics MetricsOf(const at::Tensor& sums) const override;
  // Returns top-1 of the augmented images; nothing with mixup and CutMix, whose images belong to two classes, or with
  // class weights, of which `weight` is the sum.
  report::Metrics TrainingMetrics(double hits, double weight) const override;
  void CountConfusions() override { counts_confusions_ = true; }
  bool ObserveOutputs(OutputsObserver observer) override {
    observer_ = std::move(observer);
    return true;
  }
  std::vector<int64_t> ConfusionsOf(const at::Tensor& sums) const override;

  // `images` are uint8 N×H×W×3 or normalised float32 N×3×H×W. Returns logits, float32 N×classes on the device.
  at::Tensor Logits(const at::Tensor& images);
  // Returns what the classifier sees, float32 N×NumFeatures() on the device.
  at::Tensor Features(const at::Tensor& images);
  int64_t NumFeatures() const;

 private:
  // Returns images in the form that the network takes.
  at::Tensor Normalised(const at::Tensor& images) const;
  at::Tensor LogitsOfNormalised(const at::Tensor& images);
  std::vector<at::Tensor> LogitsOfEachHead(const at::Tensor& images);
  LossSums SumsOf(const at::Tensor& loss_sum, int64_t images) const;
  int64_t NumConfusions() const;  // classes², or 0 if they are not counted

  std::shared_ptr<models::ImageModel> model_;
  int64_t num_classes_;
  const optim::Precision& precision_;
  Criterion criterion_;
  CriterionOptions criterion_options_;
  int64_t largest_size_;  // pixels
  at::Device device_;
  data::ImagePreparation preparation_;
  data::DeviceNormalisation normalisation_;
  data::MixOptions mix_;
  bool counts_confusions_ = false;
  OutputsObserver observer_;
  std::unique_ptr<const Teacher> teacher_;
};

}  // namespace dtrain::tasks
