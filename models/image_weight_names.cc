// torchvision numbers the parts of a block, timm names them. A number's meaning depends on whether the block expands
// its channels; only the blocks of the first stage do not.
#include "models/image_weight_names.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace dtrain::models {
namespace {

constexpr std::string_view kTheirStages = "blocks.", kOurStages = "features.";

struct Names {
  std::string_view ours, theirs;
};

// Beginnings of names outside the blocks.
constexpr std::array kOutsideBlocks = {
    Names{"features.0.0.", "conv_stem."}, Names{"features.0.1.", "bn1."},        Names{"features.8.0.", "conv_head."},
    Names{"features.8.1.", "bn2."},       Names{"classifier.1.", "classifier."},
};

// Beginnings of names inside a block: in the first stage, and in the others.
constexpr std::array kWithoutExpansion = {
    Names{"block.0.0.", "conv_dw."},          Names{"block.0.1.", "bn1."},     Names{"block.1.fc1.", "se.conv_reduce."},
    Names{"block.1.fc2.", "se.conv_expand."}, Names{"block.2.0.", "conv_pw."}, Names{"block.2.1.", "bn2."},
};
constexpr std::array kWithExpansion = {
    Names{"block.0.0.", "conv_pw."},          Names{"block.0.1.", "bn1."},
    Names{"block.1.0.", "conv_dw."},          Names{"block.1.1.", "bn2."},
    Names{"block.2.fc1.", "se.conv_reduce."}, Names{"block.2.fc2.", "se.conv_expand."},
    Names{"block.3.0.", "conv_pwl."},         Names{"block.3.1.", "bn3."},
};

template <typename Table>
std::string Exchanged(std::string_view name, const Table& table, std::string_view Names::*from,
                      std::string_view Names::*to) {
  for (const Names& names : table) {
    if (name.starts_with(names.*from)) return std::string(names.*to) + std::string(name.substr((names.*from).size()));
  }
  return "";
}

// Removes a number and its dot ("12.") from the front and returns the number, or -1 if there is none.
int64_t TakeNumber(std::string_view& text) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto digits = static_cast<size_t>(end - text.data());
  if (error != std::errc() || number < 0 || digits >= text.size() || text[digits] != '.') return -1;
  text.remove_prefix(digits + 1);
  return number;
}

// torchvision counts the stem as stage 0, timm does not.
std::string Renamed(std::string_view name, std::string_view Names::*from, std::string_view Names::*to) {
  if (const std::string outside = Exchanged(name, kOutsideBlocks, from, to); !outside.empty()) return outside;
  const bool is_ours = from == &Names::ours;
  const std::string_view stages = is_ours ? kOurStages : kTheirStages;
  if (!name.starts_with(stages)) return "";
  name.remove_prefix(stages.size());
  const int64_t stage = TakeNumber(name) - (is_ours ? 1 : 0);
  const int64_t block = TakeNumber(name);
  if (stage < 0 || block < 0) return "";
  const std::string inside =
      stage == 0 ? Exchanged(name, kWithoutExpansion, from, to) : Exchanged(name, kWithExpansion, from, to);
  if (inside.empty()) return "";
  return std::string(is_ours ? kTheirStages : kOurStages) + std::to_string(stage + (is_ours ? 0 : 1)) + "." +
         std::to_string(block) + "." + inside;
}

bool Take(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

// A convolution of Hugging Face's is followed by its `normalization`. Returns an empty string for another name.
std::string NameOfResNet(std::string_view name) {
  if (Take(name, "classifier.1.")) return "fc." + std::string(name);
  Take(name, "resnet.");
  if (Take(name, "embedder.embedder.convolution.")) return "conv1." + std::string(name);
  if (Take(name, "embedder.embedder.normalization.")) return "bn1." + std::string(name);
  if (!Take(name, "encoder.stages.")) return "";
  const int64_t stage = TakeNumber(name);
  const int64_t block = Take(name, "layers.") ? TakeNumber(name) : -1;
  if (stage < 0 || block < 0) return "";
  const std::string place = "layer" + std::to_string(stage + 1) + "." + std::to_string(block) + ".";
  if (Take(name, "shortcut.convolution.")) return place + "downsample.0." + std::string(name);
  if (Take(name, "shortcut.normalization.")) return place + "downsample.1." + std::string(name);
  const int64_t convolution = Take(name, "layer.") ? TakeNumber(name) : -1;
  if (convolution < 0) return "";
  const bool is_norm = Take(name, "normalization.");
  if (!is_norm && !Take(name, "convolution.")) return "";
  return place + (is_norm ? "bn" : "conv") + std::to_string(convolution + 1) + "." + std::string(name);
}

NamedWeights AllRenamed(const NamedWeights& weights, double added_variance, std::string (*rename)(std::string_view)) {
  NamedWeights renamed;
  for (const auto& [name, tensor] : weights) {
    const std::string other = rename(name);
    const bool moves = added_variance != 0 && !other.empty() && name.ends_with(".running_var");
    renamed.emplace_back(other.empty() ? name : other, moves ? tensor + added_variance : tensor);
  }
  return renamed;
}

}  // namespace

std::string TimmName(std::string_view torchvision) { return Renamed(torchvision, &Names::ours, &Names::theirs); }

std::string TorchvisionName(std::string_view timm) { return Renamed(timm, &Names::theirs, &Names::ours); }

bool HaveTimmNames(const NamedWeights& weights) {
  return std::any_of(weights.begin(), weights.end(),
                     [](const auto& item) { return item.first.starts_with("conv_stem."); });
}

NamedWeights FromTimm(const NamedWeights& weights, double epsilon) {
  if (!HaveTimmNames(weights)) return weights;  // a ResNet has a bn1, too, with another meaning
  return AllRenamed(weights, kTimmEpsilon - epsilon, TorchvisionName);
}

NamedWeights ToTimm(const NamedWeights& weights, double epsilon) {
  return AllRenamed(weights, epsilon - kTimmEpsilon, TimmName);
}

bool HaveHuggingFaceNames(const NamedWeights& weights) {
  return std::any_of(weights.begin(), weights.end(), [](const auto& item) {
    return item.first.starts_with("resnet.embedder.") || item.first.starts_with("embedder.embedder.");
  });
}

NamedWeights FromHuggingFace(const NamedWeights& weights) {
  return HaveHuggingFaceNames(weights) ? AllRenamed(weights, 0, NameOfResNet) : weights;
}

}  // namespace dtrain::models
