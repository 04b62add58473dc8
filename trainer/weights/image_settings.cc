#include "trainer/weights/image_settings.h"

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
#include "trainer/weights/foreign_network.h"
#include "trainer/weights/run_settings.h"

namespace dtrain::weights {
namespace {

nlohmann::json PartOf(const nlohmann::json& json, const char* key) {
  return json.is_object() ? json.value(key, nlohmann::json()) : nlohmann::json();
}

void Add(const char* name, const nlohmann::json& value, nlohmann::json& settings) {
  if (!value.is_null()) settings[name] = value;
}

void AddTimms(const nlohmann::json& config, nlohmann::json& settings) {
  Add("mean", PartOf(config, "mean"), settings);
  Add("std", PartOf(config, "std"), settings);
  if (const auto size = PartOf(config, "input_size"); size.is_array() && size.size() == 3)
    settings["image_size"] = size[1];
}

void AddTransformers(const nlohmann::json& processor, nlohmann::json& settings) {
  Add("mean", PartOf(processor, "image_mean"), settings);
  Add("std", PartOf(processor, "image_std"), settings);
  const nlohmann::json size = PartOf(processor, "size");
  for (const nlohmann::json& side : {size, PartOf(size, "height"), PartOf(size, "shortest_edge")}) {
    if (side.is_number_unsigned()) settings["image_size"] = settings["eval_resize"] = side;
  }
}

// Of shapes alone: to compute would start OpenMP's threads, which ranks that are forked from this process lack.
const models::Model* RecogniseImageModel(const WeightsPlace& place, const std::string& said) {
  checkpoint::NamedTensors tensors;
  for (const auto& [name, shape] : ReadWeightsHeader(place.file).shapes) {
    tensors.emplace_back(name, at::empty(shape, at::kMeta));
  }
  TakeOffWrappers(tensors);
  return models::RecognisedImageModel(tensors, said);
}

// What a run that goes on began with, or what --init_weights say. TakeSettingsOfRun has taken those of ours already,
// unless they are to be trained.
nlohmann::json SettingsOfInitialWeights(const config::Config& config) {
  const std::string& weights = config.model.init_weights;
  if (const nlohmann::json begun = SettingsOfBegunRun(config); begun.is_object()) return begun;
  if (weights.empty()) return {};
  if (!data::IsFile(weights) && !HoldsWeights(weights)) return {};
  const WeightsPlace place = FindWeights(weights);
  if (config.run.mode != "train" && SettingsKeptWith(place.file, config).is_object()) return {};
  return SettingsOfWeights(place, config);
}

}  // namespace

nlohmann::json SettingsOfWeights(const WeightsPlace& place, const config::Config& config) {
  try {
    if (const nlohmann::json kept = SettingsKeptWith(place.file, config); kept.is_object()) return kept;
    const nlohmann::json described = ParseObject(place.model_config);
    const bool is_given = config::WasGiven(config, "model");
    const models::Model* model =
        RecogniseImageModel(place, is_given ? config.model.name : TextIn(described, "architecture"));
    nlohmann::json settings = nlohmann::json::object();
    if (model != nullptr) settings = {{"model", model->name}, {"image_size", model->image_size}};
    if (is_given) model = models::FindModel(config.model.name);
    const auto epsilon = model == nullptr ? std::nullopt : NormEpsilonIn(described, *model);
    if (epsilon) settings["bn_eps"] = *epsilon;
    if (described.is_object()) AddTimms(described.value("pretrained_cfg", described), settings);
    const auto beside = std::filesystem::path(place.file).parent_path() / "preprocessor_config.json";
    try {
      if (data::IsFile(beside))
        AddTransformers(ParseShallow(checkpoint::ReadTextFile(beside, kMostConfigBytes)), settings);
    } catch (const nlohmann::json::exception& error) {
      throw UsageError(beside.string() + WhyNotJson(error), "fetch it again, or take it away");
    }
    ForgetResizeOfAnotherSize(settings, config);
    return settings;
  } catch (const DataError&) {
    return {};
  }
}

void TakeImageModelOfWeights(config::Config& config) {
  if (config.model.init_weights.empty() || !config.model.config_file.empty()) return;
  config::TakeFrom(SettingsOfInitialWeights(config), {"model"}, config);
}

void TakeImageSettingsOfWeights(config::Config& config) {
  const models::Model* model = models::FindModel(config.model.name);
  if (model == nullptr || models::ReadsText(model->name)) return;
  std::vector<std::string> names = {"bn_eps", "mean", "std"};
  const bool are_sizes_theirs = !config.model.init_weights.empty() && !config::WasGiven(config, "model");
  if (are_sizes_theirs) names.insert(names.end(), {"image_size", "eval_resize", "eval_image_size"});
  config::TakeFrom(SettingsOfInitialWeights(config), names, config, "what is kept with --init_weights");
}

}  // namespace dtrain::weights
