#include "trainer/tasks/image_kinds.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>

#include "data/joined.h"
#include "data/pipeline/sampler.h"
#include "data/shown.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/checkpoint/torch_file.h"
#include "trainer/config/config.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/tasks/export_files.h"
#include "trainer/tasks/image_data.h"
#include "trainer/tasks/image_task.h"
#include "trainer/tasks/predict_images.h"
#include "trainer/weights/foreign_network.h"
#include "trainer/weights/freeze.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/run_settings.h"
#include "trainer/weights/state_dict_order.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::tasks {
namespace {

std::string ImageNaming(const std::string& said, bool to_file) {
  if (said == "fairseq") RefuseNaming(said, /*is_text=*/false);
  return said == "auto" && !to_file ? "timm" : said;
}

std::vector<std::string> ImageFamilies() {
  std::vector<std::string> names;
  for (const models::Family& family : models::Families()) {
    if (family.input == models::Input::kImages) names.push_back(family.name);
  }
  return names;
}

// Returns the model that the weights are of, --model if they can be, and gives them the names that they have here. Null
// for a model that is unknown here, whose weights keep their names.
const models::Model* RecogniseAndRename(checkpoint::NamedTensors& tensors, const std::string& naming,
                                        const config::Config& config) {
  const models::Model* model = models::RecognisedImageModel(tensors, config.model.name);
  if (model != nullptr) {
    const auto own_names = models::FamilyOf(model->name).own_names;
    if (own_names != nullptr) tensors = own_names(tensors, *model, nullptr);
  } else if (naming == "timm" || models::NamingIn(models::ShapesOf(tensors)) == "timm") {
    throw UsageError(config.run.input + " does not hold the weights of a known model",
                     "only the weights of " + Joined(ImageFamilies(), " and ") + " can be renamed");
  }
  return model;
}

// What transformers calls a task of such labels.
const char* ProblemType(data::LabelKind labels) {
  if (labels == data::LabelKind::kClass) return "single_label_classification";
  return labels == data::LabelKind::kSeveral ? "multi_label_classification" : "regression";
}

// Returns the config.json that timm expects beside weights, for example in a model's folder on the Hugging Face hub:
// the architecture, the classes, and size, normalisation and crop of the images in evaluation; for transformers, which
// loads such folders, the kind of the labels.
nlohmann::ordered_json TimmConfig(const std::string& model, int64_t num_classes, const data::Classes& classes,
                                  data::LabelKind labels, const config::ImageConfig& image) {
  const int64_t side = config::EvalImageSize(image);
  const int64_t resize = image.eval_resize > 0 ? image.eval_resize : config::DefaultEvalResize(side);
  nlohmann::ordered_json trained = {
      {"architecture", model},
      {"num_classes", num_classes},
      {"input_size", {3, side, side}},
      {"interpolation", config::EvalInterpolation(image)},
      {"crop_pct", static_cast<double>(side) / static_cast<double>(resize)},
      {"crop_mode", "center"},
      {"mean", image.mean},
      {"std", image.std},
  };
  nlohmann::ordered_json config = {
      {"architecture", model}, {"num_classes", num_classes}, {"problem_type", ProblemType(labels)}};
  if (!classes.names.empty()) config["label_names"] = trained["label_names"] = classes.names;
  config["pretrained_cfg"] = trained;
  return config;
}

// Returns the preprocessor_config.json of the images in evaluation: the short side resized, then the centre.
nlohmann::ordered_json ProcessorConfig(const config::ImageConfig& image) {
  const int64_t side = config::EvalImageSize(image);
  constexpr int kBilinear = 2, kBicubic = 3;  // Pillow's
  return {{"image_processor_type", "BitImageProcessor"},
          {"do_convert_rgb", true},
          {"do_resize", true},
          {"size", {{"shortest_edge", image.eval_resize > 0 ? image.eval_resize : config::DefaultEvalResize(side)}}},
          {"resample", config::EvalInterpolation(image) == "bicubic" ? kBicubic : kBilinear},
          {"do_center_crop", true},
          {"crop_size", {{"height", side}, {"width", side}}},
          {"do_rescale", true},
          {"rescale_factor", 1.0 / 255},
          {"do_normalize", true},
          {"image_mean", image.mean},
          {"image_std", image.std}};
}

// transformers' models have positions for images of one size alone, unless their caller asks for more.
void RequireNativePositions(const models::Model& model, const config::ImageConfig& image) {
  const int64_t side = config::EvalImageSize(image);
  if (model.size_multiple == 1 || side == model.image_size) return;
  throw UsageError("transformers' model has positions for images of " + std::to_string(model.image_size) +
                       " pixels, and these weights are for images of " + std::to_string(side),
                   "give --image_size=" + std::to_string(model.image_size) + ", or export with --weights_naming=timm");
}

// Writes the config.json and preprocessor_config.json of a folder for transformers.
void BeginHuggingFaceFolder(const config::Config& config, const models::Model& model, const data::Classes& classes,
                            data::LabelKind labels, int64_t num_classes) {
  const std::filesystem::path folder = config.run.output;
  nlohmann::ordered_json network = weights::HuggingFaceConfig(model);
  for (int64_t label = 0; label < num_classes; ++label) {
    const auto& names = classes.names;
    const std::string name = names.empty() ? "LABEL_" + std::to_string(label) : names[static_cast<size_t>(label)];
    network["id2label"][std::to_string(label)] = name;
    network["label2id"][name] = label;
  }
  network["problem_type"] = ProblemType(labels);
  BeginExportFolder(folder, std::move(network));
  checkpoint::WriteAtomically(folder / "preprocessor_config.json", ProcessorConfig(config.image).dump(2) + "\n");
}

// Writes the weights to --output: a file under the names of torchvision, timm or Hugging Face, or a folder that timm or
// transformers loads. Throws UsageError if --weights_naming is that of text, or if unknown weights were to be renamed.
// Numbers that are predicted are then those of the labels, for programs that know nothing of a scale.
void ExportImages(weights::TrainedWeights weights, data::LabelKind labels, const config::Config& config, bool to_file) {
  const std::filesystem::path path = config.run.output;
  const std::string naming = ImageNaming(config.model.weights_naming, to_file);
  const models::Model* model = RecogniseAndRename(weights.tensors, naming, config);
  if (model != nullptr) {
    weights::ChangeScale(weights.scale, {}, models::ClassifierName(model->name), weights.tensors);
    weights.scale = {};
  }
  checkpoint::NamedTensors tensors = weights::InStateDictOrder(
      weights.tensors, model == nullptr ? "" : model->name);  // timm's order is that of torchvision's names
  const auto names_of = model == nullptr ? nullptr : models::FamilyOf(model->name).names_of;
  if (names_of != nullptr) tensors = names_of(tensors, *model, naming);
  if (tensors.empty() || (naming == "hf" && names_of == nullptr)) {
    throw UsageError("--weights_naming=" + naming + ": " + naming + " has no model like " +
                         (model == nullptr ? "this one" : model->name) + " whose names are known here",
                     "use timm, or leave it out");
  }
  const bool is_for_transformers = !to_file && naming == "hf";
  if (!to_file && naming != "timm" && !is_for_transformers) RefuseFolder(path);
  if (is_for_transformers) RequireNativePositions(*model, config.image);
  if (config.run.dry_run) return;
  checkpoint::Metadata metadata = {{"format", "pt"}, {kExportedBy, "dtrain"}};
  weights::AddTo(metadata, weights.classes);
  if (weights.scale != weights::NumberScale()) metadata[weights::kNumberScaleKey] = weights::ToText(weights.scale);
  if (model != nullptr && model->name == config.model.name) weights::AddSettings(metadata, config);
  if (to_file && path.extension() != ".safetensors") return checkpoint::WriteTorchFile(path, tensors, kExportedBy);
  if (to_file) return checkpoint::WriteSafetensors(path, tensors, metadata);
  const int64_t num_classes = weights::NumClassesOf(weights.tensors, model->name);
  if (is_for_transformers) {
    BeginHuggingFaceFolder(config, *model, weights.classes, labels, num_classes);
  } else {
    BeginExportFolder(path, TimmConfig(model->name, num_classes, weights.classes, labels, config.image));
  }
  checkpoint::WriteSafetensors(path / "model.safetensors", tensors, metadata);
}

int64_t SmallestSize(const config::Config& config, const DataSets& data) {
  const data::RecordSource& source = *data.train->source;
  const bool is_as_stored =
      source.kind() == data::RecordKind::kPixels && (config.image.augment == "auto" || config.image.augment == "none");
  if (is_as_stored) return std::max(source.rows().height, source.rows().width);
  int64_t smallest = config.image.size;
  const data::SizeSchedule sizes = *data::ParseSizeSchedule(config.image.size_schedule);
  if (!sizes.empty()) smallest = sizes.front().size;
  for (const data::SizeChange& change : sizes) smallest = std::min(smallest, change.size);
  return smallest;
}

// Batch normalisation of a single value per channel subtracts the value itself, so nothing of the image is left.
void RequireValuesToNormalise(const config::Config& config, const config::BatchSizes& batch, const DataSets& data) {
  const int64_t size = SmallestSize(config, data), stride = models::FamilyOf(config.model.name).norm_stride;
  const bool ranks_help = config.ranks.sync_bn && batch.global_batch_size > batch.grad_accum_steps;
  const int64_t shards = config.batch.elastic_shards.value_or(0);
  const int64_t fewest = shards > 0 ? batch.global_batch_size / shards : batch.batch_size;
  if (size > stride || fewest > 1 || ranks_help) return;
  throw UsageError("--model=" + config.model.name + " cannot learn from one image of " + std::to_string(size) +
                       " pixels at a time: its last batch normalisations would see a single value of each channel",
                   std::string(shards > 0 ? "lower --elastic_shards" : "raise --batch_size") +
                       ", or let images be larger than " + std::to_string(stride) + " pixels");
}

void RequireClassesToMix(const config::ImageConfig& image, int64_t num_classes) {
  if (num_classes > 1 || (image.mixup == 0 && image.cutmix == 0)) return;
  throw UsageError(std::string(image.mixup > 0 ? "--mixup" : "--cutmix") +
                       " mixes images of different classes, but the data has only one class",
                   "leave it out, or check the folders of --data_dir");
}

weights::NumberScale ScaleOf(const data::RecordSource& source) {
  std::vector<float> numbers(static_cast<size_t>(source.num_targets()));
  std::vector<double> means(numbers.size()), deviations(numbers.size());
  double seen = 0;
  for (int64_t image = 0; image < source.size(); ++image) {  // B. P. Welford (1962)
    if (!source.HasTargets(image)) continue;
    source.Targets(image, numbers);
    ++seen;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double difference = numbers[i] - means[i];
      means[i] += difference / seen;
      deviations[i] += difference * (numbers[i] - means[i]);
    }
  }
  for (double& one : deviations) one = std::sqrt(one / seen);
  return {means, deviations};
}

// What all images have in common teaches nothing.
void RequireDifferentNumbers(const DataSets& data) {
  const std::vector<double>& deviations = data.scale.deviations;
  const auto constant = std::ranges::find(deviations, 0.0);
  if (constant == deviations.end()) return;
  const auto column = static_cast<size_t>(constant - deviations.begin());
  const std::vector<std::string>& names = data.classes.names;
  const std::string name = column < names.size() ? Shown(names[column]) : "number " + std::to_string(column);
  throw DataError("all images of split " + data.train->name + " have the same " + name + ": " +
                      config::ToText(data.scale.means[column]) + ", so that nothing is learned",
                  "check the column of the labels (--label_column)");
}

}  // namespace

bool ImageKind::Takes(const std::string& model) const { return !models::ReadsText(model); }

std::string ImageKind::HeadName(const std::string& model) const { return models::ClassifierName(model); }

DataSets ImageKind::OpenData(const config::Config& config, const data::Classes& known,
                             data::SharedIndexes* indexes) const {
  DataSets sets = OpenImageSets(config, known, indexes);
  if (labels_ == data::LabelKind::kClass) return sets;
  for (const DataSplit* split : AllSplits(sets)) {
    if (split->source->num_targets() > 0) continue;
    throw UsageError(std::string("--task=") + name_ + ": split " + split->name + " has classes, or no labels at all",
                     "name a table of labels with --labels=FILE.csv");
  }
  if (labels_ == data::LabelKind::kNumbers && sets.train) sets.scale = ScaleOf(*sets.train->source);
  return sets;
}

data::Classes ImageKind::ClassesOf(const config::Config& config, const weights::TrainedWeights& weights) const {
  data::Classes classes = weights.classes;
  if (classes.count == 0) classes.count = weights::NumClassesFor(config, weights);
  return classes;
}

std::unique_ptr<Task> ImageKind::MakeTask(const config::Config& config, const DataSizes& sizes,
                                          at::Device device) const {
  auto model = MakeModel(config, sizes.num_classes, device);
  weights::Freeze(config.model, HeadName(config.model.name), *model);
  std::unique_ptr<ImageTask> task = TaskWith(std::move(model), sizes, config, device);
  if (!config.teacher.weights.empty()) task->LearnFrom(std::make_unique<Teacher>(config, sizes, device));
  return task;
}

std::unique_ptr<Task> ImageKind::MakeInferenceTask(const config::Config& config, const weights::TrainedWeights& weights,
                                                   const DataSizes& /*sizes*/, at::Device device) const {
  const DataSizes known = {
      .num_classes = weights::NumClassesFor(config, weights), .scale = weights.scale, .classes = weights.classes};
  weights::RequireScaleOf(known.num_classes, weights.scale);
  return TaskWith(MakeTrainedModel(config, weights, device), known, config, device);
}

void ImageKind::RequireLearnable(const config::Config& config, const config::BatchSizes& batch,
                                 const DataSets& data) const {
  if (labels_ == data::LabelKind::kClass) RequireClassesToMix(config.image, data.num_classes);
  if (labels_ == data::LabelKind::kNumbers) RequireDifferentNumbers(data);
  RequireValuesToNormalise(config, batch, data);
}

nlohmann::json ImageKind::Identity(const config::Config& config, const DataSets& data) const {
  auto identity = nlohmann::json::object();
  if (predicts_number()) identity[weights::kNumberScaleKey] = nlohmann::json::parse(weights::ToText(data.scale));
  if (!config.teacher.weights.empty()) identity["teacher"] = DescribeTeacher(config);
  return identity;
}

void ImageKind::AddMetadata(checkpoint::Metadata& metadata, const config::Config& /*config*/,
                            const DataSets& data) const {
  if (predicts_number()) metadata[weights::kNumberScaleKey] = weights::ToText(data.scale);
}

void ImageKind::Predict(const config::Config& config, at::Device device) const {
  WantsTensors(config) ? PredictPixels(config, device) : PredictImages(config, device);
}

void ImageKind::Export(weights::TrainedWeights weights, const config::Config& config, bool to_file) const {
  ExportImages(std::move(weights), labels_, config, to_file);
}

DataSizes ImageKind::BenchSizes(const config::Config& config) const {
  const int64_t otherwise = predicts_number() ? 1 : 1000;  // the classes of ImageNet
  return {.num_classes = config.model.num_classes > 0 ? config.model.num_classes : otherwise};
}

const TaskKind& ImageClassification() {
  static const ImageKindOf<ImageClassificationTask> kind("image_classification", data::LabelKind::kClass);
  return kind;
}

}  // namespace dtrain::tasks
