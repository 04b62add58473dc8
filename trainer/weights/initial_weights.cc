// All differences are collected before anything is said: one wrong key is rarely alone.
#include "trainer/weights/initial_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "data/shown.h"
#include "models/registry.h"
#include "models/weight_names.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/weights/module_state.h"
#include "trainer/weights/roberta_model.h"

namespace dtrain::loop {
namespace {

constexpr size_t kShownNames = 3;
constexpr size_t kShownBytes = 200;  // of each

// What DataParallel, torch.compile and Lightning put in front of every name.
constexpr std::array<std::string_view, 3> kWrappers = {"module.", "_orig_mod.", "model."};

// A name without a dot is a counter of the wrapper's own (n_averaged).
bool AllBeginWith(std::string_view wrapper, const checkpoint::NamedTensors& weights) {
  bool any = false;
  for (const auto& [name, tensor] : weights) {
    if (name.find('.') == std::string::npos) continue;
    if (!name.starts_with(wrapper)) return false;
    any = true;
  }
  return any;
}

// The pickle inside of what torch.save writes can run code: it is named, not read. A safetensors file may begin with
// the same two bytes, but its ninth opens a brace.
bool IsPyTorchFile(const std::string& path) {
  std::array<char, 9> start{};
  std::ifstream(path, std::ios::binary).read(start.data(), start.size());
  const std::string_view bytes(start.data(), start.size());
  const bool is_pickle = bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
  return bytes[8] != '{' && (is_pickle || bytes.starts_with("PK\x03\x04"));
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

std::string TakeOffWrappers(checkpoint::NamedTensors& weights) {
  std::string taken;
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view wrapper : kWrappers) {
      if (!AllBeginWith(wrapper, weights)) continue;
      for (auto& [name, tensor] : weights) name.erase(0, name.find('.') == std::string::npos ? 0 : wrapper.size());
      taken += wrapper;
      found = true;
    }
  }
  return taken;
}

WeightsPlace FindWeights(const std::string& path) {
  namespace fs = std::filesystem;
  const auto is_file = [](const fs::path& place) {
    std::error_code unreadable;  // a link to itself, say
    return fs::is_regular_file(place, unreadable);
  };
  if (IsPyTorchFile(path)) {
    throw UsageError(
        "--init_weights=" + path + " is a PyTorch file (as torch.save writes .pth), not a safetensors file",
        "convert it in Python: safetensors.torch.save_file(torch.load(FILE), 'FILE.safetensors')");
  }
  if (is_file(path)) return {.file = path};
  const fs::path file = fs::path(path) / "model.safetensors", config = fs::path(path) / "config.json";
  if (!is_file(file)) {
    throw UsageError("--init_weights=" + path + " is no file, and no folder with model.safetensors",
                     "name a safetensors file, or a folder as save_pretrained leaves it");
  }
  WeightsPlace place{.file = file.string()};
  constexpr uint64_t kMostBytes = 1 << 20;
  if (!is_file(config)) return place;
  const std::string text = checkpoint::ReadTextFile(config, kMostBytes);
  // A run directory's config.json is another: the flags.
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("model_type")) place.model_config = text;
  return place;
}

checkpoint::SafetensorsContent ReadInitialWeights(const config::ModelConfig& config) {
  const WeightsPlace place = FindWeights(config.init_weights);
  checkpoint::SafetensorsContent content = checkpoint::ReadSafetensors(place.file);
  const std::string taken = TakeOffWrappers(content.tensors);
  if (!taken.empty()) report::LogInfo("the names in " + place.file + " begin with " + taken + ", which is left out");
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
  int64_t fitting = 0;
  for (const auto& [name, tensor] : StateOf(module)) {
    const bool is_counter = name.ends_with("num_batches_tracked");
    const auto found = unused.find(name);
    if (found == unused.end()) {
      if (!is_counter) missing.push_back(name);
      continue;
    }
    const bool is_same_scalar = tensor.dim() == 0 && found->second.numel() == 1;  // some write scalars as vectors
    if (found->second.sizes() == tensor.sizes() || is_same_scalar) {
      at::Tensor target = tensor;
      target.copy_(found->second.reshape(tensor.sizes()));
      if (!is_counter) ++fitting;
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
  const std::string file = config.init_weights.empty() ? "the checkpoint" : config.init_weights;
  if (fitting == 0) {
    throw UsageError("nothing in " + file + " fits --model=" + config.name + ": " + differences,
                     "check --model, and that the file has torchvision's names");
  }
  const std::string what = file + " does not fit --model=" + config.name + ": " + differences;
  if (config.strict_weights) {
    throw UsageError(what, "check --model and --num_classes, or take what fits with --strict_weights=false");
  }
  report::LogWarning(what);
}

}  // namespace dtrain::loop
