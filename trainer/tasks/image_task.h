// The tasks of images with labels: what they have in common, and the one class of each image. Training minimises the
// cross entropy, or the binary cross entropy of each class (--loss=bce); evaluation reports top-1, top-5 and the plain
// cross entropy. Several labels are in multilabel.cc, numbers in image_regression.cc.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/image/mix.h"
#include "data/image/prepare_images.h"
#include "models/image_model.h"
#include "trainer/config/config.h"
#include "trainer/optim/precision.h"
#include "trainer/report/points.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/metric_formulas.h"
#include "trainer/tasks/task.h"
#include "trainer/tasks/teacher.h"

namespace dtrain::tasks {

// In batches of images with other labels than classes (data/pipeline/batch.h).
inline constexpr char kTargets[] = "targets";

// Makes the model of `config` with `num_classes` outputs, its weights drawn from --seed, on `device` and in the memory
// format of --channels_last.
std::shared_ptr<models::ImageModel> MakeModel(const config::Config& config, int64_t num_classes, at::Device device);

// What a training criterion knows beside logits and labels.
struct CriterionOptions {
  config::OptimizerConfig config;
  at::Tensor class_weights = {};  // Task::UseClassWeights; undefined: all are 1
};

// What the labels of mixed images are made of: their own and those of the images before them, each with its share (a
// float32 scalar on the device, undefined if they are not mixed).
struct MixedLabels {
  at::Tensor labels, own_share = {}, other_share = {};

  // Returns the mix of what `of` makes of labels, which is linear in them.
  template <typename Function>
  at::Tensor Mix(const Function& of) const {
    return own_share.defined() ? of(labels) * own_share + of(labels.roll(1, 0)) * other_share : of(labels);
  }
};

// Returns the loss of a training batch, summed over its samples.
using Criterion = at::Tensor (*)(const at::Tensor& logits, const MixedLabels& labels, const CriterionOptions& options);

// Returns the binary cross entropy of each class, averaged over the classes or, with --bce_sum, added, and summed over
// the samples. `targets` are N×C, 0 to 1.
at::Tensor BinaryCrossEntropySum(const at::Tensor& logits, at::Tensor targets, const CriterionOptions& options);

// Draws `images`, uint8 N×H×W×3 on the host, as one picture: at most the first 64, in rows of up to eight, with gaps of
// two pixels.
report::Picture PictureGrid(const at::Tensor& images);

// What the tasks have in common. A term of the loss belongs to an image.
class ImageTask : public Task {
 public:
  // The model has an output for each class, label or number of `sizes`. Training batches come with their mix
  // (MixBatches).
  ImageTask(std::shared_ptr<models::ImageModel> model, const DataSizes& sizes, const config::Config& config,
            at::Device device);

  torch::nn::Module& module() override { return *model_; }
  at::Device device() const override { return device_; }
  double NominalWeight(int64_t samples) const override { return static_cast<double>(samples); }
  bool weight_varies() const override { return false; }
  report::SpeedUnit speed_unit() const override { return report::SpeedUnit::kImages; }
  std::string WhyNotRecorded() const override { return ""; }
  models::ForwardCost CostOfSample() const override { return model_->Cost(largest_size_); }
  data::Batch RandomBatch(int64_t samples) const override;
  report::Picture PictureOf(const data::Batch& batch) const override { return PictureGrid(Pictures(batch)); }
  // Returns the images of a prepared training batch as the network sees them, uint8 N×H×W×3 on the host.
  at::Tensor Pictures(const data::Batch& batch) const;
  bool ObserveOutputs(OutputsObserver observer) override {
    observer_ = std::move(observer);
    return true;
  }

  // `images` are uint8 N×H×W×3 or normalised float32 N×3×H×W. Returns logits, or the numbers that are predicted,
  // float32 N×outputs on the device.
  at::Tensor Logits(const at::Tensor& images) { return Predicted(LogitsOfNormalised(Normalised(images))); }
  // Returns what the classifier sees, float32 N×NumFeatures() on the device.
  at::Tensor Features(const at::Tensor& images);
  int64_t NumFeatures() const { return model_->NumFeatures(); }

 protected:
  int64_t outputs() const { return outputs_; }
  virtual void AddRandomLabels(data::Batch& /*batch*/, int64_t /*samples*/) const {}
  // Returns what is predicted, from what the network computes.
  virtual at::Tensor Predicted(const at::Tensor& outputs_NC) const { return outputs_NC; }

  bool mixes() const { return mix_.enabled(); }
  // Returns the images of a training batch in the form that the network takes, mixed as was drawn.
  at::Tensor TrainingImages(const data::Batch& batch) const;
  // Returns the labels of a training batch, the tensor `name`, with the shares that were drawn.
  MixedLabels TrainingLabels(const data::Batch& batch, const char* name) const;
  LossSums SumsOf(const at::Tensor& loss_sum, int64_t images) const;
  // Returns images in the form that the network takes.
  at::Tensor Normalised(const at::Tensor& images) const;
  // Returns what the network computes, float32.
  at::Tensor LogitsOfNormalised(const at::Tensor& images);
  std::vector<at::Tensor> LogitsOfEachHead(const at::Tensor& images);
  void Observe(const SampleOutputs& outputs) const {
    if (observer_) observer_(outputs);
  }

 private:
  std::shared_ptr<models::ImageModel> model_;
  int64_t outputs_;
  const optim::Precision& precision_;
  int64_t largest_size_;  // pixels
  at::Device device_;
  data::ImagePreparation preparation_;
  data::DeviceNormalisation normalisation_;
  data::MixOptions mix_;
  OutputsObserver observer_;
};

// What the tasks have in common whose images have labels. The sums of an evaluation that only one of the tasks has come
// first, then the loss and the number of images.
class ImageTargetTask : public ImageTask {
 public:
  using ImageTask::ImageTask;

  LossSums Loss(const data::Batch& batch) override;
  void AddEvaluationSums(const data::Batch& batch, at::Tensor sums) override;
  int64_t num_evaluation_sums() const override { return num_own_sums() + 2; }
  report::Metrics MetricsOf(const at::Tensor& sums) const override;

 protected:
  virtual const char* target_name() const { return kTargets; }  // the tensor of a batch with the labels
  // Returns targets as the criterion takes them.
  virtual at::Tensor Wanted(const at::Tensor& targets) const { return targets; }
  // Returns the criterion, summed over the batch.
  virtual at::Tensor LossSum(const at::Tensor& outputs_NC, const at::Tensor& wanted, bool training) const = 0;
  virtual int64_t num_own_sums() const = 0;
  virtual void AddTo(at::Tensor own, const at::Tensor& outputs_NC, const at::Tensor& wanted,
                     const data::Batch& batch) const = 0;
  // The metrics besides the loss.
  virtual report::Metrics OwnMetrics(const double* own, double images) const = 0;
};

class ImageClassificationTask : public ImageTargetTask {
 public:
  // Learns from --teacher, too.
  ImageClassificationTask(std::shared_ptr<models::ImageModel> model, const DataSizes& sizes,
                          const config::Config& config, at::Device device);

  torch::nn::Module* teacher() const override { return teacher_ ? &teacher_->model() : nullptr; }
  LossSums Loss(const data::Batch& batch) override;
  bool weight_varies() const override { return criterion_options_.class_weights.defined(); }
  models::ForwardCost CostOfSample() const override;
  void UseClassWeights(const at::Tensor& weights_C) override { criterion_options_.class_weights = weights_C; }
  report::Metrics MetricsOf(const at::Tensor& sums) const override;
  // Returns top-1 of the augmented images; nothing with mixup and CutMix, whose images belong to two classes, or with
  // class weights, of which `weight` is the sum.
  report::Metrics TrainingMetrics(double hits, double weight) const override;
  void CountConfusions() override { num_confusions_ = NumConfusions(outputs()); }
  std::vector<int64_t> ConfusionsOf(const at::Tensor& sums) const override {
    return ConfusionsIn(sums, num_confusions_);
  }

 protected:
  const char* target_name() const override { return "labels"; }
  void AddRandomLabels(data::Batch& batch, int64_t samples) const override;
  at::Tensor LossSum(const at::Tensor& logits_NC, const at::Tensor& labels, bool training) const override;
  int64_t num_own_sums() const override;
  void AddTo(at::Tensor own, const at::Tensor& logits_NC, const at::Tensor& labels,
             const data::Batch& batch) const override;
  report::Metrics OwnMetrics(const double* own, double images) const override;

 private:
  Criterion criterion_;
  CriterionOptions criterion_options_;
  std::unique_ptr<const Teacher> teacher_;  // null: there is none
  int64_t num_confusions_ = 0;              // 0: they are not counted
};

}  // namespace dtrain::tasks
