#include "trainer/tasks/teacher.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/outputs.h"
#include "data/sha256.h"
#include "data/shown.h"
#include "models/registry.h"
#include "trainer/config/config_json.h"
#include "trainer/config/flags.h"
#include "trainer/config/problems.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/image_task.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/foreign_network.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/run_settings.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::tasks {
namespace {

struct TrainedTeacher {
  config::Config config;  // as if it were evaluated
  weights::TrainedWeights weights;
};

TrainedTeacher ReadTeacher(const config::Config& student) {
  config::Config teacher;
  teacher.run.mode = "eval";
  teacher.precision = student.precision;
  teacher.model.channels_last = student.model.channels_last;
  teacher.model.name = student.teacher.model;
  if (!teacher.model.name.empty()) teacher.given.emplace_back("model");
  const std::string& path = student.teacher.weights;
  (data::IsRun(path) ? teacher.run.input : teacher.model.init_weights) = path;
  weights::FindNamedWeights(teacher);
  weights::TakeImageSizeOfModel(teacher);
  const bool is_ours = !weights::TakeSettingsOfRun(teacher).empty();
  if (!is_ours || teacher.model.name.empty()) {
    const std::string& file = teacher.model.init_weights;
    const weights::WeightsPlace place = weights::FindWeights(file.empty() ? teacher.run.input : file);
    const nlohmann::json said = weights::SettingsOfWeights(place, teacher, /*of_teacher=*/true);
    if (teacher.model.name.empty() && !said.contains("model")) {
      const std::string text = models::RecognisedModel(weights::ReadWeightsHeader(place.file).shapes);
      throw UsageError(place.file + " does not hold the weights of an image model that is known here" +
                           (text.empty() ? "" : "; they are of --model=" + text),
                       "name weights of one of --list_models");
    }
    config::TakeFrom(said, {"model", "image_size", "eval_resize", "mean", "std", "bn_eps"}, teacher,
                     "what is kept with " + path);
    if (!is_ours) teacher.run.task = ImageKindIn(place.model_config).name();
  }
  const models::Model* model = models::FindModel(teacher.model.name);
  const bool is_other_task = teacher.run.task != "auto" && teacher.run.task != student.run.task;
  if (model == nullptr || models::ReadsText(model->name) || is_other_task) {
    throw UsageError(path + " is of --model=" + Shown(teacher.model.name) +
                         (is_other_task ? ", --task=" + Shown(teacher.run.task) : "") +
                         ", which cannot teach --task=" + student.run.task,
                     "name weights that were trained for it, of one of --list_models");
  }
  const auto problems = config::OutOfRange(teacher);
  if (!problems.empty() || teacher.image.mean.size() != 3 || teacher.image.std.size() != 3) {
    throw UsageError("the settings of images beside " + path + " cannot be used",
                     problems.empty() ? "mean and std are three numbers each" : config::Describe(problems));
  }
  const int64_t side = config::EvalImageSize(teacher.image);
  weights::RequireImageSize(teacher, side, side);
  weights::TrainedWeights weights = weights::ReadInferenceWeights(teacher);
  return {std::move(teacher), std::move(weights)};
}

template <typename Work>
auto AboutTheTeacher(const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code(), std::string("--teacher: ") + error.what(),
                error.hint() +
                    "; of a teacher, --init_weights and --model are --teacher and --teacher_model, and "
                    "other flags count where --mode=export writes its weights");
  }
}

void RequireSameClasses(const data::Classes& of_teacher, int64_t count, const DataSizes& student,
                        const std::string& origin) {
  const std::string advice = "name a teacher that was trained on the classes of this data";
  if (count != student.num_classes) {
    throw UsageError(origin + " tells " + std::to_string(count) + " classes apart, but this run has " +
                         std::to_string(student.num_classes),
                     advice);
  }
  if (of_teacher.names.empty()) return;
  for (const std::string& name : student.classes.names) {
    if (std::ranges::find(of_teacher.names, name) != of_teacher.names.end()) continue;
    throw UsageError(origin + " does not know the class " + Shown(name) + " of this data", advice);
  }
}

// Under autocast these are multiplied in half precision; kept so, they are not converted again in every step.
void KeepHalf(torch::nn::Module& model, at::ScalarType type) {
  for (at::Tensor& weight : model.parameters()) {
    if (weight.dim() == 2 || weight.dim() == 4) weight.set_data(weight.detach().to(type));
  }
}

}  // namespace

Teacher::Teacher(const config::Config& config, const DataSizes& student, at::Device device)
    : options_(config.teacher), precision_(optim::PrecisionNamed(config.precision.name)) {
  const TrainedTeacher found = AboutTheTeacher([&] { return ReadTeacher(config); });
  const config::ImageConfig &theirs = config.image, &own = found.config.image;
  AboutTheTeacher([&] {
    const int64_t classes = weights::NumClassesFor(found.config, found.weights);
    RequireSameClasses(found.weights.classes, classes, student, options_.weights);
    model_ = MakeModel(found.config, classes, device);
    weights::ApplyInitialWeights(found.weights.tensors, found.config.model, *model_,
                                 weights::KnownHeads{found.weights.classes, student.classes});
  });
  size_ = config::EvalImageSize(own);
  model_->eval();
  for (at::Tensor& weight : model_->parameters()) weight.requires_grad_(false);
  const models::ForwardCost cost = model_->Cost(size_);
  cost_ = {.multiply_adds = cost.multiply_adds / 3, .moved_elements = cost.moved_elements / 3};
  KeepHalf(*model_, precision_.products);
  if (own.mean != theirs.mean || own.std != theirs.std) {
    std::vector<double> factor, shift;
    for (size_t c = 0; c < 3; ++c) {
      factor.push_back(theirs.std[c] / own.std[c]);
      shift.push_back((theirs.mean[c] - own.mean[c]) / own.std[c]);
    }
    const auto of_channels = [&](const std::vector<double>& values) {
      return at::tensor(values, at::kFloat).view({1, 3, 1, 1}).to(device);
    };
    factor_ = of_channels(factor);
    shift_ = of_channels(shift);
  }
  report::LogInfo("the teacher is " + options_.weights + ": --model=" + found.config.model.name + " with images of " +
                  std::to_string(size_) + " pixels");
}

at::Tensor Teacher::Logits(const at::Tensor& images_NCHW) const {
  const at::NoGradGuard no_grad;
  at::Tensor images = images_NCHW;
  if (factor_.defined()) images = images * factor_ + shift_;  // in float32
  if (images.size(2) != size_ || images.size(3) != size_) {
    images = at::_upsample_bicubic2d_aa(images.to(at::kFloat), {size_, size_}, /*align_corners=*/false);
  }
  const optim::AutocastScope autocast(images.device().type(), precision_);
  return model_->forward(images).to(at::kFloat);
}

at::Tensor Teacher::Loss(const at::Tensor& student_NC, const at::Tensor& teacher_NC) const {
  if (options_.distill == "hard") {
    return at::cross_entropy_loss(student_NC, teacher_NC.argmax(1), {}, at::Reduction::None);
  }
  const double temperature = options_.temperature;
  const at::Tensor own = at::log_softmax(student_NC / temperature, 1);
  const at::Tensor taught = at::log_softmax(teacher_NC / temperature, 1);
  return at::kl_div(own, taught, at::Reduction::None, /*log_target=*/true).sum(1) * (temperature * temperature);
}

at::Tensor Teacher::Combined(const at::Tensor& labels_sum, const at::Tensor& loss_N,
                             const at::Tensor& weights_N) const {
  const at::Tensor taught_sum = weights_N.defined() ? (loss_N * weights_N).sum() : loss_N.sum();
  return labels_sum * (1 - options_.weight) + taught_sum * options_.weight;
}

std::string DescribeTeacher(const config::Config& config) {
  const TrainedTeacher found = AboutTheTeacher([&] { return ReadTeacher(config); });
  const config::ImageConfig& image = found.config.image;
  data::Sha256 hash;
  for (const auto& [name, tensor] : found.weights.tensors) {
    const at::Tensor values = tensor.contiguous();
    hash.UpdateText(name);
    hash.UpdateText(c10::toString(values.scalar_type()));
    hash.Update(values.const_data_ptr(), values.nbytes());
  }
  return found.config.model.name + " at " + std::to_string(config::EvalImageSize(image)) + " pixels, mean " +
         config::ToText(image.mean) + ", std " + config::ToText(image.std) + ", sha256 " + hash.Hex();
}

}  // namespace dtrain::tasks
