// A trained image model whose predictions another one learns beside the labels: knowledge distillation (Hinton et al.
// 2015, arXiv:1503.02531), with DeiT's choice between its probabilities and its likeliest class (Touvron et al. 2020,
// arXiv:2012.12877).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "models/image_model.h"
#include "trainer/config/config.h"
#include "trainer/optim/precision.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::tasks {

class Teacher {
 public:
  // Makes the model of --teacher on `device`. Its outputs are put into the order of the student's classes by their
  // names, as far as both are known. Throws UsageError if it is no model of images, its classes are others than those
  // of `student`, or its images have a size that it does not take, and as ReadInferenceWeights does.
  Teacher(const config::Config& config, const DataSizes& student, at::Device device);

  // Takes the images that the student sees, N×3×H×W normalised by --mean and --std. Returns the logits, float32
  // N×classes without a gradient, for the same images with the teacher's own normalisation and, if it is another,
  // size: resized by an antialiased bicubic filter.
  at::Tensor Logits(const at::Tensor& images_NCHW) const;

  // Returns the distillation loss of each sample, float32 N. With the temperature T, soft is T² times the divergence of
  // the student's probabilities from the teacher's, KL(softmax(teacher / T) ‖ softmax(student / T)), summed over the
  // classes, so that a batch has the mean over its samples: Hinton's, and `batchmean` of torch's kl_div. (DeiT's
  // program also divides by the number of classes, so that the weight of its soft loss depends on that.) hard is the
  // cross entropy with the teacher's likeliest class.
  at::Tensor Loss(const at::Tensor& student_NC, const at::Tensor& teacher_NC) const;

  // Returns the loss of a batch: (1 − w) × that of its labels + w × the sum of Loss, with w = --distill_weight. Each
  // sample's part is multiplied by its weight; undefined: all are 1.
  at::Tensor Combined(const at::Tensor& labels_sum, const at::Tensor& loss_N, const at::Tensor& weights_N) const;

  models::ImageModel& model() const { return *model_; }
  // The cost of a sample as a part of a training step, which is reckoned as three forward passes.
  models::ForwardCost Cost() const { return cost_; }

 private:
  const config::TeacherConfig options_;
  std::shared_ptr<models::ImageModel> model_;
  models::ForwardCost cost_;
  const optim::Precision& precision_;
  int64_t size_ = 0;           // pixels
  at::Tensor factor_, shift_;  // from the student's normalisation, float32 1×3×1×1; undefined: it is the same
};

// Returns what must be the same when a run with --teacher is resumed: its model, what it sees, and a hash of its
// weights. Throws as Teacher does for weights that cannot be read.
std::string DescribeTeacher(const config::Config& config);

}  // namespace dtrain::tasks
