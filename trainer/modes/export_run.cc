// --mode=export: writes weights under the names and in the files of other programs. No model is run.
#include <cctype>
#include <filesystem>
#include <utility>
#include <vector>

#include "data/outputs.h"
#include "models/registry.h"
#include "models/weight_names.h"
#include "trainer/errors.h"
#include "trainer/modes/run.h"
#include "trainer/report/log.h"
#include "trainer/tasks/export_files.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/foreign_network.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/roberta_model.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::modes {
namespace {
namespace fs = std::filesystem;

// Returns the model that weights are of: --model, if they can be; empty for a model that is unknown here.
std::string ModelOf(const checkpoint::NamedTensors& tensors, const std::string& said) {
  const bool is_text = models::NamingOf(tensors) != models::WeightNaming::kUnknown;
  if (is_text) return models::ReadsText(said) ? said : "roberta";
  const models::Model* model = models::RecognisedImageModel(tensors, said);
  return model == nullptr ? "" : model->name;
}

// Reads the weights of a run directory, a checkpoint, a file, or a Hugging Face folder.
weights::TrainedWeights ReadExported(const config::Config& config) {
  const std::string &path = config.run.input, &which = config.run.weights;
  std::error_code unreadable;
  const auto is_file = [&](const fs::path& place) { return fs::is_regular_file(place, unreadable); };
  const fs::path folder = path;
  const bool is_folder_of_weights = !data::IsRun(path) && weights::HoldsWeights(path);
  if (is_file(folder) || is_folder_of_weights) {
    const weights::WeightsPlace place = weights::FindWeights(path);
    checkpoint::SafetensorsContent content = weights::ReadWeightsFile(place.file, which);
    weights::TakeOffWrappers(content.tensors);
    const std::string model = ModelOf(content.tensors, config.model.name);
    if (!model.empty()) weights::RequireSameNetwork(place, content, model);
    std::string& model_config = content.metadata[weights::kModelConfigKey];
    if (!place.model_config.empty()) model_config = place.model_config;
    return {std::move(content.tensors),
            weights::ClassesFrom(content.metadata, place.file),
            place.file,
            model_config,
            /*held_out=*/"",
            /*trained_on=*/""};
  }
  if (!fs::exists(folder, unreadable)) {
    throw UsageError("--input=" + path + " does not exist", "name a run's folder, a checkpoint or a file of weights");
  }
  return weights::ReadRunWeights(folder, which);
}

// Whether --output names a file of weights, not a folder. Throws UsageError if it ends like a file of another kind.
bool NamesFile(const fs::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".safetensors" || ending == ".pt" || ending == ".pth") return true;
  std::error_code unreadable;
  const bool begins_with_letter = ending.size() > 1 && std::isalpha(static_cast<unsigned char>(ending[1])) != 0;
  if (!begins_with_letter || fs::is_directory(path, unreadable)) return false;
  throw UsageError("--output=" + path.string() + " ends like a file, but " + ending + " files cannot be written",
                   ending == ".onnx"
                       ? "scripts/export_onnx.py writes it (docs/weights.md)"
                       : "end the name in .safetensors, .pt or .pth; for a folder of this name, end it in /");
}

void RequireOtherOutput(const config::Config& config, bool is_file) {
  std::vector<std::string> read = {config.run.input, config.data.dir};
  if (weights::HoldsWeights(config.run.input)) read.push_back(weights::FindWeights(config.run.input).file);
  if (is_file) return data::RequireOtherFile(config.run.output, read);
  data::RequireOwnFolder(config.run.output, read, tasks::HoldsExport);
  data::RequireOtherFile((fs::path(config.run.output) / "model.safetensors").string(), read);
}

}  // namespace

void Export(const RunContext& context) {
  const config::Config& config = context.config;
  if (context.launch.world_size > 1) {
    throw UsageError("--mode=export runs on one rank", "leave out --nproc_per_node and the launcher");
  }
  report::InitializeLogging(context.launch.rank, context.launch.world_size, /*log_directory=*/"");
  for (const std::string& note : context.notes) report::LogInfo(note);
  const bool is_file = NamesFile(config.run.output);
  RequireOtherOutput(config, is_file);
  weights::TrainedWeights weights = ReadExported(config);
  report::LogInfo((config.run.dry_run ? "would export " : "exporting ") + weights.origin + " to " + config.run.output);
  const tasks::TaskKind& kind = tasks::KindOfWeights(weights, config);
  kind.Export(std::move(weights), config, is_file);
}

}  // namespace dtrain::modes
