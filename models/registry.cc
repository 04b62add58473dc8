// A table of the differences between the members of a family.
#include "models/registry.h"

#include <ATen/ATen.h>

#include <cstdio>
#include <map>

#include "models/efficientnet.h"
#include "models/resnet.h"
#include "models/roberta_options.h"

namespace dtrain::models {
namespace {

constexpr char kRobertaOfAnyShape[] = "roberta";

const std::map<std::string, ResNetOptions>& ResNets() {
  static const std::map<std::string, ResNetOptions> table = {
      {"resnet18", {.bottleneck = false, .blocks = {2, 2, 2, 2}}},
      {"resnet34", {.bottleneck = false, .blocks = {3, 4, 6, 3}}},
      {"resnet50", {.bottleneck = true, .blocks = {3, 4, 6, 3}}},
      {"resnet101", {.bottleneck = true, .blocks = {3, 4, 23, 3}}},
      {"resnet152", {.bottleneck = true, .blocks = {3, 8, 36, 3}}},
  };
  return table;
}

struct ScaledNet {
  EfficientNetOptions options;
  int64_t image_size;
};

// From the paper's table, with torchvision's ε and momentum.
const std::map<std::string, ScaledNet>& EfficientNets() {
  constexpr BatchNormOptions kSlow = {.epsilon = 1e-3, .momentum = 0.01};
  static const std::map<std::string, ScaledNet> table = {
      {"efficientnet_b0", {{.width = 1.0, .depth = 1.0, .dropout = 0.2}, 224}},
      {"efficientnet_b1", {{.width = 1.0, .depth = 1.1, .dropout = 0.2}, 240}},
      {"efficientnet_b2", {{.width = 1.1, .depth = 1.2, .dropout = 0.3}, 260}},
      {"efficientnet_b3", {{.width = 1.2, .depth = 1.4, .dropout = 0.3}, 300}},
      {"efficientnet_b4", {{.width = 1.4, .depth = 1.8, .dropout = 0.4}, 380}},
      {"efficientnet_b5", {{.width = 1.6, .depth = 2.2, .dropout = 0.4, .norm = kSlow}, 456}},
      {"efficientnet_b6", {{.width = 1.8, .depth = 2.6, .dropout = 0.5, .norm = kSlow}, 528}},
      {"efficientnet_b7", {{.width = 2.0, .depth = 3.1, .dropout = 0.5, .norm = kSlow}, 600}},
  };
  return table;
}

// Returns the number of blocks PREFIX0., PREFIX1. …
int64_t CountBlocks(const std::map<std::string, at::Tensor>& weights, const std::string& prefix) {
  for (int64_t count = 0;; ++count) {
    const std::string block = prefix + std::to_string(count) + ".";
    const auto first = weights.lower_bound(block);
    if (first == weights.end() || !first->first.starts_with(block)) return count;
  }
}

template <typename Blocks>
bool HaveBlocks(const std::map<std::string, at::Tensor>& weights, const std::string& stages, const Blocks& blocks) {
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    if (CountBlocks(weights, stages + std::to_string(stage + 1) + ".") != blocks[stage]) return false;
  }
  return true;
}

}  // namespace

std::string RecognisedModel(const NamedWeights& weights) {
  const std::map<std::string, at::Tensor> by_name(weights.begin(), weights.end());
  for (const auto& [name, options] : ResNets()) {
    const bool is_bottleneck = by_name.contains("layer1.0.conv3.weight");
    if (options.bottleneck == is_bottleneck && HaveBlocks(by_name, "layer", options.blocks)) return name;
  }
  const auto head = by_name.find("features.8.0.weight");
  const int64_t head_channels = head == by_name.end() || head->second.dim() == 0 ? 0 : head->second.size(0);
  for (const auto& [name, scaled] : EfficientNets()) {
    const EfficientNetOptions& options = scaled.options;
    if (HeadChannels(options) == head_channels && HaveBlocks(by_name, "features.", BlocksPerStage(options)))
      return name;
  }
  return "";
}

double NormEpsilon(const std::string& model) {
  const auto found = EfficientNets().find(model);
  return found == EfficientNets().end() ? BatchNormOptions{}.epsilon : found->second.options.norm.epsilon;
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const auto& [name, options] : EfficientNets()) names.push_back(name);
  for (const auto& [name, options] : ResNets()) names.push_back(name);
  names.emplace_back(kRobertaOfAnyShape);
  for (const std::string& name : RobertaNames()) names.push_back(name);
  return names;
}

std::string Description(const std::string& model) {
  const std::string images = ", for images of " + std::to_string(NativeImageSize(model)) + " pixels";
  if (ResNets().contains(model)) return "ResNet of " + model.substr(std::string("resnet").size()) + " layers" + images;
  if (const auto found = EfficientNets().find(model); found != EfficientNets().end()) {
    char shape[64];
    std::snprintf(shape, sizeof shape, "EfficientNet of width %.1f and depth %.1f", found->second.options.width,
                  found->second.options.depth);
    return shape + images;
  }
  const std::optional<RobertaOptions> shape = RobertaNamed(model);
  if (!shape) return "RoBERTa for text, with the shape in --model_config=FILE";
  return "RoBERTa of " + std::to_string(shape->layers) + " layers, " + std::to_string(shape->hidden_size) +
         " wide, with " + std::to_string(shape->heads) + " heads, for text";
}

bool TakesZeroInitResidual(const std::string& model) { return ResNets().count(model) > 0; }

bool TakesDropout(const std::string& model) { return EfficientNets().count(model) > 0; }

std::string ClassifierWeightName(const std::string& model) {
  return ResNets().count(model) > 0 ? "fc.weight" : "classifier.1.weight";
}

std::string ClassifierName(const std::string& model) {
  if (IsRoberta(model)) return "lm_head";
  const std::string weight = ClassifierWeightName(model);
  return weight.substr(0, weight.rfind('.'));
}

int64_t NativeImageSize(const std::string& model) {
  constexpr int64_t kImageNetSize = 224;
  const auto found = EfficientNets().find(model);
  return found == EfficientNets().end() ? kImageNetSize : found->second.image_size;
}

bool IsRoberta(const std::string& name) { return name == kRobertaOfAnyShape || RobertaNamed(name).has_value(); }

std::shared_ptr<ImageModel> MakeImageModel(const std::string& name, const ImageModelOptions& options) {
  if (const auto found = EfficientNets().find(name); found != EfficientNets().end()) {
    EfficientNetOptions scaled = found->second.options;
    scaled.num_classes = options.num_classes;
    scaled.dropout = options.dropout.value_or(scaled.dropout);
    scaled.drop_path = options.drop_path.value_or(scaled.drop_path);
    return std::make_shared<EfficientNet>(scaled);
  }
  ResNetOptions resnet = ResNets().at(name);
  resnet.num_classes = options.num_classes;
  resnet.zero_init_residual = options.zero_init_residual;
  return std::make_shared<ResNet>(resnet);
}

}  // namespace dtrain::models
