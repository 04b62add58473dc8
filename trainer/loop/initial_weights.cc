// All differences are collected before anything is said: one wrong key is rarely alone.
#include "trainer/loop/initial_weights.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "data/shown.h"
#include "models/registry.h"
#include "models/weight_names.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/errors.h"
#include "trainer/loop/roberta_model.h"
#include "trainer/loop/training_state.h"
#include "trainer/report/log.h"

namespace dtrain::loop {
namespace {

constexpr size_t kShownNames = 3;
constexpr size_t kShownBytes = 200;  // of each

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::string ShapeOf(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

void Append(std::string& text, const std::string& title, const std::vector<std::string>& names) {
  if (names.empty()) return;
  text += (text.empty() ? "" : "; ") + title + ": ";
  for (size_t i = 0; i < std::min(kShownNames, names.size()); ++i)
    text += (i > 0 ? ", " : "") + Shown(names[i], kShownBytes);
  if (names.size() > kShownNames) text += " and " + std::to_string(names.size() - kShownNames) + " more";
}

}  // namespace

WeightsPlace FindWeights(const std::string& path) {
  namespace fs = std::filesystem;
  if (fs::is_regular_file(path)) return {.file = path};
  const fs::path file = fs::path(path) / "model.safetensors", config = fs::path(path) / "config.json";
  if (!fs::is_regular_file(file)) {
    throw UsageError("--init_weights=" + path + " is no file, and no folder with model.safetensors",
                     "name a safetensors file, or a folder as save_pretrained leaves it");
  }
  WeightsPlace place{.file = file.string()};
  constexpr uint64_t kMostBytes = 1 << 20;
  if (!fs::is_regular_file(config)) return place;
  const std::string text = checkpoint::ReadTextFile(config, kMostBytes);
  // A run directory's config.json is another: the flags.
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("model_type")) place.model_config = text;
  return place;
}

checkpoint::SafetensorsContent ReadInitialWeights(const config::ModelConfig& config) {
  const WeightsPlace place = FindWeights(config.init_weights);
  checkpoint::SafetensorsContent content = checkpoint::ReadSafetensors(place.file);
  content.tensors = WithOwnNames(content.tensors, config, place.file);
  if (!place.model_config.empty()) content.metadata[kModelConfigKey] = place.model_config;
  return content;
}

checkpoint::NamedTensors WithOwnNames(const checkpoint::NamedTensors& weights, const config::ModelConfig& config,
                                      const std::string& origin) {
  if (!models::IsRoberta(config.name)) return weights;
  try {
    std::vector<std::string> left_out;
    checkpoint::NamedTensors own = models::RobertaWeightsFrom(weights, &left_out);
    std::string names;
    Append(names, "left out of " + origin, left_out);
    if (!names.empty()) report::LogInfo(names);
    return own;
  } catch (const std::invalid_argument& error) {
    throw UsageError(origin + ": " + error.what(), "only models with a tied decoder can be used");
  }
}

int64_t NumClassesOf(const checkpoint::NamedTensors& weights, const std::string& model) {
  const std::string classifier = models::ClassifierWeightName(model);
  for (const auto& [name, tensor] : weights) {
    if (name == classifier && tensor.dim() == 2) return tensor.size(0);
  }
  return 0;
}

void ApplyInitialWeights(const checkpoint::NamedTensors& weights, const config::ModelConfig& config,
                         torch::nn::Module& module) {
  at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> unused(weights.begin(), weights.end());
  std::vector<std::string> missing, other_shape, superfluous;
  for (const auto& [name, tensor] : StateOf(module)) {
    const auto found = unused.find(name);
    if (found == unused.end()) {
      if (!EndsWith(name, "num_batches_tracked")) missing.push_back(name);
      continue;
    }
    if (found->second.sizes() == tensor.sizes()) {
      at::Tensor target = tensor;
      target.copy_(found->second);
    } else {
      other_shape.push_back(name + " " + ShapeOf(found->second) + " for " + ShapeOf(tensor));
    }
    unused.erase(found);
  }
  for (const auto& [name, tensor] : unused) superfluous.push_back(name);

  std::string differences;
  Append(differences, "missing", missing);
  Append(differences, "of another shape", other_shape);
  Append(differences, "not in the model", superfluous);
  if (differences.empty()) return;
  const std::string what = config.init_weights + " does not fit --model=" + config.name + ": " + differences;
  if (config.strict_weights) {
    throw UsageError(what, "check --model and --num_classes, or take what fits with --strict_weights=false");
  }
  report::LogWarning(what);
}

}  // namespace dtrain::loop
