#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "data/joined.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/checkpoint/torch_file.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/export_files.h"
#include "trainer/weights/foreign_network.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/run_settings.h"

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
  if (config.model.bn_eps && *config.model.bn_eps != model.norm_epsilon && !network.contains("layer_norm_eps")) {
    throw UsageError("transformers' model has norms with an epsilon of its own, not --bn_eps=" +
                         config::ToText(*config.model.bn_eps),
                     "export with --weights_naming=timm");
  }
  if (config.model.bn_eps && network.contains("layer_norm_eps")) network["layer_norm_eps"] = *config.model.bn_eps;
  BeginExportFolder(folder, std::move(network));
  checkpoint::WriteAtomically(folder / "preprocessor_config.json", ProcessorConfig(config.image).dump(2) + "\n");
}

}  // namespace

void ExportImages(weights::TrainedWeights weights, data::LabelKind labels, const config::Config& config, bool to_file) {
  const std::filesystem::path path = config.run.output;
  const std::string naming = ImageNaming(config.model.weights_naming, to_file);
  const models::Model* model = RecogniseAndRename(weights.tensors, naming, config);
  if (model != nullptr) {
    weights::ChangeScale(weights.scale, {}, models::ClassifierName(model->name), weights.tensors);
    weights.scale = {};
  }
  checkpoint::NamedTensors tensors = InStateDictOrder(
      weights.tensors, model == nullptr ? "" : model->name);  // timm's order is that of torchvision's names
  const auto names_of = model == nullptr ? nullptr : models::FamilyOf(model->name).names_of;
  if (names_of != nullptr) tensors = names_of(tensors, *model, naming);
  if (tensors.empty() || (naming == "hf" && names_of == nullptr)) {
    throw UsageError("--weights_naming=" + naming + ": " + naming + " has no model like " +
                         (model == nullptr ? "this one" : model->name) + " whose names are known here",
                     "name another --weights_naming");
  }
  const bool is_for_transformers = !to_file && naming == "hf";
  if (!to_file && naming != "timm" && !is_for_transformers) RefuseFolder(path);
  if (is_for_transformers) RequireNativePositions(*model, config.image);
  if (config.run.dry_run) return;
  if (!to_file && config.image.crop != "resized") {
    report::LogWarning("whoever reads " + path.string() + " resizes images first, which --crop=" + config.image.crop +
                       " does not");
  }
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

}  // namespace dtrain::tasks
