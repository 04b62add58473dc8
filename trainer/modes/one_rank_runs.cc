// --mode=predict and --mode=export, on one rank. The first writes a table for people, or the model's outputs for
// tensors, which bypass all decoding so that the model can be compared with other frameworks. The second writes weights
// under the names and in the files of other programs, and runs no model. The task's kind knows how.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/outputs.h"
#include "data/storage.h"
#include "models/registry.h"
#include "trainer/config/config_json.h"
#include "trainer/device/device.h"
#include "trainer/errors.h"
#include "trainer/modes/outputs.h"
#include "trainer/modes/run.h"
#include "trainer/report/log.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/foreign_network.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/run_settings.h"
#include "trainer/weights/text_model.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::modes {
namespace {
namespace fs = std::filesystem;

// Returns the model that weights are of: --model, if they can be, else what their config.json names; empty for a model
// that is unknown here.
std::string ModelOf(const checkpoint::NamedTensors& tensors, const std::string& model_config,
                    const weights::WeightsPlace& place, const config::Config& config) {
  const std::string text = tasks::TextModelOf(tensors, model_config, config.model.name);
  if (!text.empty()) return text;
  const models::Model* model = weights::ImageModelMeant(models::ShapesOf(tensors), place, config);
  return model == nullptr ? "" : model->name;
}

// Reads the weights of a run directory, a checkpoint, a file, or a Hugging Face folder.
weights::TrainedWeights ReadExported(const config::Config& config) {
  const std::string &path = config.run.input, &which = config.run.weights;
  if (const std::string given = weights::GivenWeights(config); !given.empty()) {
    const weights::WeightsPlace place = weights::FindWeights(given);
    checkpoint::SafetensorsContent content = weights::ReadWeightsFile(place.file, which);
    weights::TakeOffWrappers(content.tensors);
    std::string& model_config = content.metadata[weights::kModelConfigKey];
    if (!place.model_config.empty()) model_config = place.model_config;
    const std::string model = ModelOf(content.tensors, model_config, place, config);
    if (!model.empty()) weights::RequireSameNetwork(place, content, model);
    return {std::move(content.tensors),
            weights::ClassesFrom(content.metadata, place.file),
            place.file,
            model_config,
            /*held_out=*/"",
            /*trained_on=*/"",
            weights::ScaleFrom(content.metadata, place.file)};
  }
  if (std::error_code unreadable; !fs::exists(path, unreadable)) {
    throw UsageError("--input=" + path + " does not exist", "name a run's folder, a checkpoint or a file of weights");
  }
  return weights::ReadRunWeights(path, which);
}

}  // namespace

void Predict(const RunContext& context) {
  device::UseShareOfCores(context.launch);
  const config::Config& config = context.config;
  const at::Device device = device::DeviceOf(context.launch, config.ranks.backend, config.precision.name);
  OpenLog(context);
  tasks::KindOf(config).Predict(config, device);
}

void Export(const RunContext& context) {
  OpenLog(context);
  config::Config config = context.config;
  const bool is_file = ExportsFile(config.run.output);
  weights::TrainedWeights weights = ReadExported(config);
  report::LogInfo((config.run.dry_run ? "would export " : "exporting ") + weights.origin + " to " + config.run.output);
  const std::string text = tasks::TextModelOf(weights.tensors, weights.model_config, config.model.name);
  if (!text.empty()) config.model.name = text;
  const tasks::TaskKind& kind = tasks::KindOfWeights(weights, config);
  if (const std::string input = weights::GivenWeights(config); text.empty() && !input.empty()) {
    // The folder or file that is written tells of images what the one that is read does.
    config.run.task = kind.name();
    const auto said = weights::SettingsOfWeights(weights::FindWeights(input), config);
    std::vector<std::string> names = weights::ImageSettingNames(config);
    names.emplace_back("model");
    if (!config::WasGiven(config, "model") && !config::WasGiven(config, "eval_resize"))
      config.image.eval_resize = 0;  // that of the size which is taken
    config::TakeFrom(said, names, config, "what is kept with " + input);
  }
  kind.Export(std::move(weights), config, is_file);
}

}  // namespace dtrain::modes
