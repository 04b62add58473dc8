// torchvision numbers the parts of a block, timm and Hugging Face name them. A number's meaning depends on whether the
// block expands its channels; only the blocks of the first stage do not.
#include "models/image_weight_names.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "models/renaming.h"

namespace dtrain::models {
namespace {

constexpr std::string_view kTheirStages = "blocks.", kOurStages = "features.";

struct Names {
  std::string_view ours, timms, hugging_faces;
};

// Beginnings of names outside the blocks.
constexpr auto kOutsideBlocks = std::to_array<Names>({
    {"features.0.0.", "conv_stem.", "embeddings.convolution."},
    {"features.0.1.", "bn1.", "embeddings.batchnorm."},
    {"features.8.0.", "conv_head.", "encoder.top_conv."},
    {"features.8.1.", "bn2.", "encoder.top_bn."},
    {"classifier.1.", "classifier.", "classifier."},
});

// Beginnings of names inside a block: in the first stage, and in the others.
constexpr auto kWithoutExpansion = std::to_array<Names>({
    {"block.0.0.", "conv_dw.", "depthwise_conv.depthwise_conv."},
    {"block.0.1.", "bn1.", "depthwise_conv.depthwise_norm."},
    {"block.1.fc1.", "se.conv_reduce.", "squeeze_excite.reduce."},
    {"block.1.fc2.", "se.conv_expand.", "squeeze_excite.expand."},
    {"block.2.0.", "conv_pw.", "projection.project_conv."},
    {"block.2.1.", "bn2.", "projection.project_bn."},
});
constexpr auto kWithExpansion = std::to_array<Names>({
    {"block.0.0.", "conv_pw.", "expansion.expand_conv."},
    {"block.0.1.", "bn1.", "expansion.expand_bn."},
    {"block.1.0.", "conv_dw.", "depthwise_conv.depthwise_conv."},
    {"block.1.1.", "bn2.", "depthwise_conv.depthwise_norm."},
    {"block.2.fc1.", "se.conv_reduce.", "squeeze_excite.reduce."},
    {"block.2.fc2.", "se.conv_expand.", "squeeze_excite.expand."},
    {"block.3.0.", "conv_pwl.", "projection.project_conv."},
    {"block.3.1.", "bn3.", "projection.project_bn."},
});

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

// Returns the name inside a block of one of timm's stages, which torchvision counts from 1.
std::string InsideBlock(std::string_view name, int64_t stage, std::string_view Names::*from,
                        std::string_view Names::*to) {
  return stage == 0 ? Exchanged(name, kWithoutExpansion, from, to) : Exchanged(name, kWithExpansion, from, to);
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
  const std::string inside = InsideBlock(name, stage, from, to);
  if (inside.empty()) return "";
  return std::string(is_ours ? kTheirStages : kOurStages) + std::to_string(stage + (is_ours ? 0 : 1)) + "." +
         std::to_string(block) + "." + inside;
}

// Of V2, where timm's stages are counted as torchvision's and both say "head" for what torchvision counts as the last.
constexpr auto kSecondVersion = std::to_array<NamePair>({
    {"features.0.0.", "conv_stem."},
    {"features.0.1.", "bn1."},
    {"features.1.#.block.0.0.", "features.1.#.conv."},
    {"features.1.#.block.0.1.", "features.1.#.bn1."},
    {"features.2.#.block.0.0.", "features.2.#.conv_exp."},
    {"features.2.#.block.0.1.", "features.2.#.bn1."},
    {"features.2.#.block.1.0.", "features.2.#.conv_pwl."},
    {"features.2.#.block.1.1.", "features.2.#.bn2."},
    {"features.3.#.block.0.0.", "features.3.#.conv_exp."},
    {"features.3.#.block.0.1.", "features.3.#.bn1."},
    {"features.3.#.block.1.0.", "features.3.#.conv_pwl."},
    {"features.3.#.block.1.1.", "features.3.#.bn2."},
    {"features.#.#.block.0.0.", "features.#.#.conv_pw."},
    {"features.#.#.block.0.1.", "features.#.#.bn1."},
    {"features.#.#.block.1.0.", "features.#.#.conv_dw."},
    {"features.#.#.block.1.1.", "features.#.#.bn2."},
    {"features.#.#.block.2.fc1.", "features.#.#.se.conv_reduce."},
    {"features.#.#.block.2.fc2.", "features.#.#.se.conv_expand."},
    {"features.#.#.block.3.0.", "features.#.#.conv_pwl."},
    {"features.#.#.block.3.1.", "features.#.#.bn3."},
    {"features.head.0.", "conv_head."},
    {"features.head.1.", "bn2."},
    {"classifier.1.", "classifier."},
});
constexpr std::string_view kHead = "features.head.";

// Whether the first block filters all channels together, as V2's does.
bool IsSecondVersion(const NamedWeights& weights) {
  const std::vector<int64_t> first = SizesIn(ShapesOf(weights), "features.1.0.block.0.0.weight");
  return ShapesOf(weights).contains("blocks.0.0.conv.weight") || (first.size() == 4 && first[1] > 1);
}

// Returns the number after `start`, or -1.
int64_t NumberAfter(std::string_view name, std::string_view start) {
  if (!name.starts_with(start)) return -1;
  name.remove_prefix(start.size());
  return TakeNumber(name);
}

int64_t LargestAfter(const NamedWeights& weights, std::string_view start) {
  int64_t largest = -1;
  for (const auto& [name, tensor] : weights) largest = std::max(largest, NumberAfter(name, start));
  return largest;
}

// "blocks.2.x" → "features.3.x"
std::string Recounted(const std::string& name, std::string_view from, std::string_view to, int64_t more) {
  const int64_t number = NumberAfter(name, from);
  if (number < 0) return name;
  return std::string(to) + std::to_string(number + more) + name.substr(name.find('.', from.size()));
}

NamedWeights SecondVersionFromTimm(NamedWeights weights) {
  const std::string head = std::string(kOurStages) + std::to_string(LargestAfter(weights, kTheirStages) + 2) + ".";
  for (auto& [name, tensor] : weights) name = Recounted(name, kTheirStages, kOurStages, 1);
  weights = WithOurNames(weights, kSecondVersion);
  for (auto& [name, tensor] : weights) {
    if (name.starts_with(kHead)) name.replace(0, kHead.size(), head);
  }
  return weights;
}

NamedWeights SecondVersionToTimm(NamedWeights weights) {
  const std::string head = std::string(kOurStages) + std::to_string(LargestAfter(weights, kOurStages)) + ".";
  for (auto& [name, tensor] : weights) {
    if (name.starts_with(head)) name.replace(0, head.size(), kHead);
  }
  weights = WithTheirNames(weights, kSecondVersion);
  for (auto& [name, tensor] : weights) name = Recounted(name, kOurStages, kTheirStages, -1);
  return weights;
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

// Hugging Face's EfficientNets count their blocks through. A stage's blocks have equally many output channels.
class EfficientNetNames {
 public:
  explicit EfficientNetNames(const NamedWeights& weights) {
    for (const auto& [name, tensor] : weights) {
      std::string_view inside = name;
      const int64_t block = TakeBlock(inside);
      if (block >= 0 && inside == "projection.project_conv.weight" && tensor.dim() > 0)
        channels_[block] = tensor.size(0);
    }
  }

  // Returns an empty string for another name.
  std::string operator()(std::string_view name) const {
    const int64_t number = TakeBlock(name);
    if (number < 0) return Exchanged(name, kOutsideBlocks, &Names::hugging_faces, &Names::ours);
    int64_t stage = -1, block = 0, channels = 0;
    for (const auto& [other, of_other] : channels_) {
      block = of_other == channels ? block + 1 : 0;
      if (block == 0) ++stage;
      channels = of_other;
      if (other == number) break;
    }
    const std::string inside = InsideBlock(name, stage, &Names::hugging_faces, &Names::ours);
    return inside.empty()
               ? ""
               : std::string(kOurStages) + std::to_string(stage + 1) + "." + std::to_string(block) + "." + inside;
  }

 private:
  // Removes the beginning of a name. Returns the block's number; -1: the name is outside the blocks.
  static int64_t TakeBlock(std::string_view& name) {
    Take(name, "efficientnet.");
    return Take(name, "encoder.blocks.") ? TakeNumber(name) : -1;
  }

  std::map<int64_t, int64_t> channels_;  // by block
};

std::string Same(std::string_view name) { return std::string(name); }

template <typename Rename>
NamedWeights AllRenamed(const NamedWeights& weights, double added_variance, const Rename& rename) {
  NamedWeights renamed;
  for (const auto& [name, tensor] : weights) {
    const std::string other = rename(name);
    const bool moves = added_variance != 0 && !other.empty() && name.ends_with(".running_var");
    renamed.emplace_back(other.empty() ? name : other, moves ? tensor + added_variance : tensor);
  }
  return renamed;
}

}  // namespace

std::string TimmName(std::string_view torchvision) { return Renamed(torchvision, &Names::ours, &Names::timms); }

std::string TorchvisionName(std::string_view timm) { return Renamed(timm, &Names::timms, &Names::ours); }

bool HaveTimmNames(const NamedWeights& weights) {
  return std::any_of(weights.begin(), weights.end(),
                     [](const auto& item) { return item.first.starts_with("conv_stem."); });
}

NamedWeights FromTimm(const NamedWeights& weights, double more_epsilon) {
  if (!HaveTimmNames(weights)) return weights;  // a ResNet has a bn1, too, with another meaning
  if (IsSecondVersion(weights)) return AllRenamed(SecondVersionFromTimm(weights), -more_epsilon, Same);
  return AllRenamed(weights, -more_epsilon, TorchvisionName);
}

NamedWeights ToTimm(const NamedWeights& weights, double more_epsilon) {
  if (IsSecondVersion(weights)) return AllRenamed(SecondVersionToTimm(weights), more_epsilon, Same);
  return AllRenamed(weights, more_epsilon, TimmName);
}

HuggingFaceNames HuggingFaceNamesOf(const WeightShapes& weights) {
  for (const auto& [name, shape] : weights) {
    if (name.starts_with("resnet.embedder.") || name.starts_with("embedder.embedder.")) {
      return HuggingFaceNames::kResNet;
    }
    if (name.starts_with("efficientnet.embeddings.") || name.starts_with("embeddings.convolution.")) {
      return HuggingFaceNames::kEfficientNet;
    }
  }
  return HuggingFaceNames::kNone;
}

NamedWeights FromHuggingFace(const NamedWeights& weights) {
  switch (HuggingFaceNamesOf(ShapesOf(weights))) {
    case HuggingFaceNames::kResNet:
      return AllRenamed(weights, 0, NameOfResNet);
    case HuggingFaceNames::kEfficientNet:
      return AllRenamed(weights, 0, EfficientNetNames(weights));
    case HuggingFaceNames::kNone:
      break;
  }
  return weights;
}

}  // namespace dtrain::models
