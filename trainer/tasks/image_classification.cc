// --task=image_classification.
#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "data/joined.h"
#include "data/pipeline/size_schedule.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/checkpoint/torch_file.h"
#include "trainer/config/config.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/tasks/export_files.h"
#include "trainer/tasks/image_data.h"
#include "trainer/tasks/image_task.h"
#include "trainer/tasks/predict_images.h"
#include "trainer/tasks/task_kind.h"
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

// Returns the config.json that timm expects beside weights, for example in a model's folder on the Hugging Face hub:
// the architecture, the classes, and size, normalisation and crop of the images in evaluation.
nlohmann::ordered_json TimmConfig(const std::string& model, int64_t num_classes, const data::Classes& classes,
                                  const config::ImageConfig& image) {
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
  if (!classes.names.empty()) trained["label_names"] = classes.names;
  return {{"architecture", model}, {"num_classes", num_classes}, {"pretrained_cfg", trained}};
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
                            int64_t num_classes) {
  const std::filesystem::path folder = config.run.output;
  nlohmann::ordered_json network = weights::HuggingFaceConfig(model);
  for (int64_t label = 0; label < num_classes; ++label) {
    const auto& names = classes.names;
    const std::string name = names.empty() ? "LABEL_" + std::to_string(label) : names[static_cast<size_t>(label)];
    network["id2label"][std::to_string(label)] = name;
    network["label2id"][name] = label;
  }
  BeginExportFolder(folder, std::move(network));
  checkpoint::WriteAtomically(folder / "preprocessor_config.json", ProcessorConfig(config.image).dump(2) + "\n");
}

// Writes the weights to --output: a file under the names of torchvision, timm or Hugging Face, or a folder that timm or
// transformers loads. Throws UsageError if --weights_naming is that of text, or if unknown weights were to be renamed.
void ExportImages(weights::TrainedWeights weights, const config::Config& config, bool to_file) {
  const std::filesystem::path path = config.run.output;
  const std::string naming = ImageNaming(config.model.weights_naming, to_file);
  const models::Model* model = RecogniseAndRename(weights.tensors, naming, config);
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
  if (model != nullptr && model->name == config.model.name) weights::AddSettings(metadata, config);
  if (to_file && path.extension() != ".safetensors") return checkpoint::WriteTorchFile(path, tensors, kExportedBy);
  if (to_file) return checkpoint::WriteSafetensors(path, tensors, metadata);
  const int64_t num_classes = weights::NumClassesOf(weights.tensors, model->name);
  if (is_for_transformers) {
    BeginHuggingFaceFolder(config, *model, weights.classes, num_classes);
  } else {
    BeginExportFolder(path, TimmConfig(model->name, num_classes, weights.classes, config.image));
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

class ImageClassificationKind : public TaskKind {
 public:
  const char* name() const override { return "image_classification"; }
  bool Takes(const std::string& model) const override { return !models::ReadsText(model); }
  std::string HeadName(const std::string& model) const override { return models::ClassifierName(model); }
  SampleSize SizeOf(const config::Config& config) const override { return {"image_size", config.image.size}; }

  DataSets OpenData(const config::Config& config, const data::Classes& known,
                    data::SharedIndexes* indexes) const override {
    return OpenImageSets(config, known, indexes);
  }

  data::Classes ClassesOf(const config::Config& config, const weights::TrainedWeights& weights) const override {
    data::Classes classes = weights.classes;
    if (classes.count == 0) classes.count = weights::NumClassesFor(config, weights);
    return classes;
  }

  std::unique_ptr<Task> MakeTask(const config::Config& config, const DataSizes& sizes,
                                 at::Device device) const override {
    auto model = MakeModel(config, sizes.num_classes, device);
    weights::Freeze(config.model, HeadName(config.model.name), *model);
    auto task = std::make_unique<ImageTask>(std::move(model), sizes.num_classes, config, device);
    if (!config.teacher.weights.empty()) task->LearnFrom(std::make_unique<Teacher>(config, sizes, device));
    return task;
  }

  nlohmann::json Identity(const config::Config& config, const DataSets& /*data*/) const override {
    if (config.teacher.weights.empty()) return nlohmann::json::object();
    return {{"teacher", DescribeTeacher(config)}};
  }

  std::unique_ptr<Task> MakeInferenceTask(const config::Config& config, const weights::TrainedWeights& weights,
                                          const DataSizes& /*sizes*/, at::Device device) const override {
    return std::make_unique<ImageTask>(MakeTrainedModel(config, weights, device),
                                       weights::NumClassesFor(config, weights), config, device);
  }

  void RequireLearnable(const config::Config& config, const config::BatchSizes& batch,
                        const DataSets& data) const override {
    RequireClassesToMix(config.image, data.num_classes);
    RequireValuesToNormalise(config, batch, data);
  }

  void Predict(const config::Config& config, at::Device device) const override {
    WantsTensors(config) ? PredictPixels(config, device) : PredictImages(config, device);
  }

  void Export(weights::TrainedWeights weights, const config::Config& config, bool to_file) const override {
    ExportImages(std::move(weights), config, to_file);
  }

  DataSizes BenchSizes(const config::Config& config) const override {
    constexpr int64_t kImageNetClasses = 1000;
    return {.num_classes = config.model.num_classes > 0 ? config.model.num_classes : kImageNetClasses};
  }
};

}  // namespace

const TaskKind& ImageClassification() {
  static const ImageClassificationKind kind;
  return kind;
}

}  // namespace dtrain::tasks
