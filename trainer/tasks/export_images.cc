#include "trainer/tasks/export_images.h"

#include <filesystem>
#include <string>
#include <utility>

#include "models/image_weight_names.h"
#include "models/registry.h"
#include "trainer/checkpoint/torch_file.h"
#include "trainer/errors.h"
#include "trainer/tasks/export_files.h"
#include "trainer/tasks/timm_folder.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/state_dict_order.h"

namespace dtrain::loop {
namespace {

std::string ImageNaming(const std::string& said, bool to_file) {
  if (said == "hf" || said == "fairseq") RefuseNaming(said, /*is_text=*/false);
  if (said != "auto") return said;
  return to_file ? "torchvision" : "timm";
}

// Returns the model that the weights are of, and gives them the names that they have here. Empty for a model that is
// unknown here, whose weights keep their names.
std::string RecogniseAndRename(checkpoint::NamedTensors& tensors, const std::string& naming, const std::string& input) {
  const std::string model = models::RecognisedModel(models::FromTimm(tensors, models::kTimmEpsilon));
  if (!model.empty()) {
    tensors = models::FromTimm(tensors, models::NormEpsilon(model));
  } else if (naming == "timm" || models::HaveTimmNames(tensors)) {
    throw UsageError(input + " does not hold the weights of a known model",
                     "only the weights of ResNets and EfficientNets can be renamed");
  }
  return model;
}

}  // namespace

void ExportImages(TrainedWeights weights, const config::Config& config, bool to_file) {
  const std::filesystem::path path = config.run.output;
  const std::string naming = ImageNaming(config.model.weights_naming, to_file);
  const std::string model = RecogniseAndRename(weights.tensors, naming, config.run.input);
  checkpoint::NamedTensors tensors = InStateDictOrder(weights.tensors);  // timm's order is that of torchvision's names
  if (naming == "timm") tensors = models::ToTimm(tensors, models::NormEpsilon(model));
  if (!to_file && naming != "timm") RefuseFolder(path);
  if (config.run.dry_run) return ProbeExport(path, to_file);
  checkpoint::Metadata metadata = {{"format", "pt"}};
  AddTo(metadata, weights.classes);
  if (to_file && path.extension() != ".safetensors") return checkpoint::WriteTorchFile(path, tensors, "");
  if (to_file) return checkpoint::WriteSafetensors(path, tensors, metadata);
  BeginExportFolder(path, TimmConfig(model, NumClassesOf(weights.tensors, model), weights.classes, config.image));
  checkpoint::WriteSafetensors(path / "model.safetensors", tensors, metadata);
}

}  // namespace dtrain::loop
