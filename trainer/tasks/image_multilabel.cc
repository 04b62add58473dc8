// --task=image_multilabel: any number of several labels for each image, each with a logit of its own. The loss is the
// binary cross entropy; --class_weights weigh the images that have a label, as torch's BCEWithLogitsLoss(pos_weight).
#include <ATen/ATen.h>

#include <utility>

#include "trainer/tasks/image_kinds.h"
#include "trainer/tasks/image_task.h"
#include "trainer/tasks/several_labels.h"

namespace dtrain::tasks {
namespace {

class ImageMultilabelTask : public ImageTargetTask {
 public:
  ImageMultilabelTask(std::shared_ptr<models::ImageModel> model, int64_t labels, const config::Config& config,
                      at::Device device)
      : ImageTargetTask(std::move(model), labels, config, device),
        criterion_options_(config.optimizer),
        labels_(labels, config.data.label_threshold) {}

  std::string best_metric() const override { return labels_.lacks_map() ? "micro_f1" : "map"; }
  void UseClassWeights(const std::vector<double>& weights) override {
    if (!weights.empty()) criterion_options_.class_weights = at::tensor(weights, at::kFloat).to(device());
  }
  data::Batch Prepared(data::Batch batch) const override {
    batch.tensors[kPlaces] = batch["index"];
    return batch;
  }
  void BeginEvaluation(const DataSplit& split) override { labels_.Begin(split); }
  std::vector<report::ClassScores> ScoresOf(const at::Tensor& sums) const override {
    return labels_.Scores(sums.const_data_ptr<double>() + kFirstOwnSum);
  }

 protected:
  void AddRandomLabels(data::Batch& batch, int64_t samples) const override {
    batch.tensors[kTargets] = at::randint(2, {samples, outputs()}, at::kFloat);
    batch.tensors[kPlaces] = at::arange(samples);
  }
  // The validation loss has no weights: it describes the model, not the way it was trained.
  at::Tensor LossSum(const at::Tensor& logits_NC, const at::Tensor& wanted_NC, bool training) const override {
    if (training) return BinaryCrossEntropySum(logits_NC, wanted_NC, criterion_options_);
    return at::binary_cross_entropy_with_logits(logits_NC, wanted_NC).mul(logits_NC.size(0));
  }
  int64_t num_own_sums() const override { return labels_.num_sums(); }
  void AddTo(at::Tensor own, const at::Tensor& logits_NC, const at::Tensor& wanted_NC,
             const data::Batch& batch) const override {
    labels_.AddTo(std::move(own), logits_NC, wanted_NC, batch[kPlaces]);
  }
  report::Metrics OwnMetrics(const double* own, double /*images*/) const override { return labels_.Metrics(own); }

 private:
  CriterionOptions criterion_options_;
  SeveralLabels labels_;
};

}  // namespace

const TaskKind& ImageMultilabel() {
  static const ImageKindOf<ImageMultilabelTask> kind("image_multilabel", data::LabelKind::kSeveral);
  return kind;
}

}  // namespace dtrain::tasks
