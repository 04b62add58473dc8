// The table of what differs between the members of a family.
#include "models/registry.h"

#include <map>

#include "models/resnet.h"

namespace dtrain::models {
namespace {

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

}  // namespace

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const auto& [name, options] : ResNets()) names.push_back(name);
  return names;
}

std::string ClassifierWeightName(const std::string& /*model: all are ResNets*/) { return "fc.weight"; }

std::shared_ptr<ImageModel> MakeImageModel(const std::string& name, const ImageModelOptions& options) {
  ResNetOptions resnet = ResNets().at(name);
  resnet.num_classes = options.num_classes;
  resnet.zero_init_residual = options.zero_init_residual;
  return std::make_shared<ResNet>(resnet);
}

}  // namespace dtrain::models
