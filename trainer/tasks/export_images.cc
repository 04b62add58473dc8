#include "trainer/tasks/export_images.h"

#include <filesystem>
#include <string>
#include <utility>

#include "models/registry.h"
#include "trainer/checkpoint/torch_file.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/tasks/export_files.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/state_dict_order.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::loop {
namespace {

std::string ImageNaming(const std::string& said, bool to_file) {
  if (said == "hf" || said == "fairseq") RefuseNaming(said, /*is_text=*/false);
  if (said != "auto") return said;
  return to_file ? "torchvision" : "timm";
}

// Returns the model that the weights are of, and gives them the names that they have here. Null for a model that is
// unknown here, whose weights keep their names.
const models::Model* RecogniseAndRename(checkpoint::NamedTensors& tensors, const std::string& naming,
                                        const std::string& input) {
  const models::Model* model = models::RecognisedImageModel(tensors);
  if (model != nullptr) {
    const auto own_names = models::FamilyOf(model->name).own_names;
    if (own_names != nullptr) tensors = own_names(tensors, *model, nullptr);
  } else if (naming == "timm" || NamingIn(tensors) == "timm") {
    throw UsageError(input + " does not hold the weights of a known model",
                     "only the weights of ResNets and EfficientNets can be renamed");
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

}  // namespace

void ExportImages(TrainedWeights weights, const config::Config& config, bool to_file) {
  const std::filesystem::path path = config.run.output;
  const std::string naming = ImageNaming(config.model.weights_naming, to_file);
  const models::Model* model = RecogniseAndRename(weights.tensors, naming, config.run.input);
  checkpoint::NamedTensors tensors = InStateDictOrder(weights.tensors);  // timm's order is that of torchvision's names
  const auto timm_names = model == nullptr ? nullptr : models::FamilyOf(model->name).timm_names;
  if (naming == "timm" && timm_names != nullptr) tensors = timm_names(tensors, *model);
  if (!to_file && naming != "timm") RefuseFolder(path);
  if (config.run.dry_run) return ProbeExport(path, to_file);
  checkpoint::Metadata metadata = {{"format", "pt"}};
  AddTo(metadata, weights.classes);
  if (to_file && path.extension() != ".safetensors") return checkpoint::WriteTorchFile(path, tensors, "");
  if (to_file) return checkpoint::WriteSafetensors(path, tensors, metadata);
  BeginExportFolder(path,
                    TimmConfig(model->name, NumClassesOf(weights.tensors, model->name), weights.classes, config.image));
  checkpoint::WriteSafetensors(path / "model.safetensors", tensors, metadata);
}

}  // namespace dtrain::loop
