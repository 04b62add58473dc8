#include "trainer/weights/foreign_images.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/shallow_json.h"
#include "data/storage.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/config/config_json.h"
#include "trainer/config/flags.h"
#include "trainer/errors.h"
#include "trainer/weights/run_settings.h"

namespace dtrain::weights {
namespace {

nlohmann::json PartOf(const nlohmann::json& json, const char* key) {
  return json.is_object() ? json.value(key, nlohmann::json()) : nlohmann::json();
}

void TakeTimms(const nlohmann::json& config, config::Config& taker) {
  nlohmann::json settings = {{"mean", PartOf(config, "mean")}, {"std", PartOf(config, "std")}};
  if (const auto size = PartOf(config, "input_size"); size.is_array() && size.size() == 3)
    settings["image_size"] = size[1];
  config::TakeFrom(settings, {"mean", "std", "image_size"}, taker);
}

void TakeTransformers(const nlohmann::json& processor, config::Config& taker) {
  nlohmann::json settings = {{"mean", PartOf(processor, "image_mean")}, {"std", PartOf(processor, "image_std")}};
  const nlohmann::json size = PartOf(processor, "size");
  for (const nlohmann::json& side : {size, PartOf(size, "height"), PartOf(size, "shortest_edge")}) {
    if (side.is_number_unsigned()) settings["image_size"] = settings["eval_resize"] = side;
  }
  config::TakeFrom(settings, {"mean", "std", "image_size", "eval_resize"}, taker);
}

}  // namespace

bool RecogniseImageModel(const WeightsPlace& place, config::Config& config) {
  // Of shapes alone: to compute would start OpenMP's threads, which ranks that are forked from this process lack.
  checkpoint::NamedTensors tensors;
  for (const auto& [name, shape] : ReadWeightsHeader(place.file).shapes) {
    tensors.emplace_back(name, at::empty(shape, at::kMeta));
  }
  TakeOffWrappers(tensors);
  const auto described = place.model_config.empty() ? nlohmann::json() : ParseShallow(place.model_config);
  const models::Model* model = models::RecognisedImageModel(tensors, TextIn(described, "architecture"));
  if (model == nullptr) return false;
  config.model.name = model->name;
  TakeImageSizeOfModel(config);
  return true;
}

void TakeForeignSettings(const WeightsPlace& place, config::Config& config) {
  if (const auto described = place.model_config.empty() ? nlohmann::json() : ParseShallow(place.model_config);
      described.is_object()) {
    TakeTimms(described.value("pretrained_cfg", described), config);
  }
  const auto beside = std::filesystem::path(place.file).parent_path() / "preprocessor_config.json";
  if (!data::IsFile(beside)) return;
  try {
    TakeTransformers(ParseShallow(checkpoint::ReadTextFile(beside, kMostConfigBytes)), config);
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(beside.string() + WhyNotJson(error), "fetch it again, or take it away");
  }
}

void TakeImageModelOfWeights(config::Config& config) {
  const std::string& weights = config.model.init_weights;
  if (config.run.mode != "train" || config::WasGiven(config, "model") || !config.model.config_file.empty()) return;
  if (weights.empty()) return;
  const auto take = [&config](const nlohmann::json& settings) {
    if (settings.is_object())
      config::TakeFrom(settings, {"model", "image_size", "eval_resize", "eval_image_size", "mean", "std"}, config);
    return settings.is_object();
  };
  if (take(SettingsOfBegunRun(config)) || !data::Exists(weights)) return;
  try {
    const WeightsPlace place = FindWeights(weights);
    if (take(SettingsKeptWith(place.file, config))) return;
    if (RecogniseImageModel(place, config)) TakeForeignSettings(place, config);
  } catch (const DataError&) {  // damaged weights are reported when they are read
  }
}

}  // namespace dtrain::weights
