// The whole family is one class: stages of residual blocks, described by the table in registry.cc.
#include "models/resnet.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include <utility>

#include "models/family.h"
#include "models/image_weight_names.h"

namespace dtrain::models {
namespace {

constexpr int64_t kStemChannels = 64;
constexpr int64_t kBottleneckExpansion = 4;

constexpr char kConfigFields[] = R"({
  "model_type": ["resnet"], "num_channels": [3], "embedding_size": [64], "hidden_act": ["relu"],
  "downsample_in_first_stage": [false], "downsample_in_bottleneck": [false],
  "stage_names": null, "out_features": null, "out_indices": null
})";

std::string ConfigFieldsOf(const ResNetOptions& options) {
  std::string depths, sizes;
  for (size_t stage = 0; stage < options.blocks.size(); ++stage) {
    const int64_t channels = (kStemChannels << stage) * (options.bottleneck ? kBottleneckExpansion : 1);
    depths += (stage > 0 ? ", " : "") + std::to_string(options.blocks[stage]);
    sizes += (stage > 0 ? ", " : "") + std::to_string(channels);
  }
  return std::string(R"({"layer_type": [")") + (options.bottleneck ? "bottleneck" : "basic") + R"("], "depths": [[)" +
         depths + R"(]], "hidden_sizes": [[)" + sizes + "]]}";
}

void DrawWeights(Conv2d& conv) { torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU); }

}  // namespace

ResidualBlockImpl::ResidualBlockImpl(bool bottleneck, int64_t in_channels, int64_t width, int64_t stride)
    : bottleneck_(bottleneck), out_channels_(bottleneck ? width * kBottleneckExpansion : width) {
  if (bottleneck_) {
    conv1_ = register_module("conv1", Conv2d(Conv2dOptions{in_channels, width, 1}));
    bn1_ = register_module("bn1", BatchNorm2d(width));
    conv2_ = register_module("conv2", Conv2d(Conv2dOptions{width, width, 3, stride}));
    bn2_ = register_module("bn2", BatchNorm2d(width));
    conv3_ = register_module("conv3", Conv2d(Conv2dOptions{width, out_channels_, 1}));
    bn3_ = register_module("bn3", BatchNorm2d(out_channels_));
  } else {
    conv1_ = register_module("conv1", Conv2d(Conv2dOptions{in_channels, width, 3, stride}));
    bn1_ = register_module("bn1", BatchNorm2d(width));
    conv2_ = register_module("conv2", Conv2d(Conv2dOptions{width, width, 3}));
    bn2_ = register_module("bn2", BatchNorm2d(width));
  }
  if (stride != 1 || in_channels != out_channels_) {
    downsample_ = register_module("downsample",
                                  torch::nn::Sequential(Conv2d(Conv2dOptions{in_channels, out_channels_, 1, stride}),
                                                        BatchNorm2d(out_channels_)));
  }
}

ResidualPair ResidualBlockImpl::forward(const ResidualPair& x_NCHW) {
  at::Tensor y = conv2_(bn1_->Activated(conv1_(x_NCHW.main), Activation::kRelu).main);
  if (bottleneck_) y = conv3_(bn2_->Activated(y, Activation::kRelu).main);
  if (!downsample_) return last_norm()->AddRelu(y, [&] { return x_NCHW.shortcut; });
  const auto conv = downsample_->ptr<Conv2dImpl>(0);
  const auto norm = downsample_->ptr<BatchNorm2dImpl>(1);
  return last_norm()->AddRelu(
      y, [&] { return conv->forward(x_NCHW.shortcut); }, norm.get());
}

std::vector<Conv2d> ResidualBlockImpl::convolutions() const {
  std::vector<Conv2d> all = {conv1_, conv2_};
  if (bottleneck_) all.push_back(conv3_);
  if (downsample_) all.push_back(Conv2d(downsample_->ptr<Conv2dImpl>(0)));
  return all;
}

ResNet::ResNet(const ResNetOptions& options) {
  conv1_ = register_module("conv1", Conv2d(Conv2dOptions{3, kStemChannels, 7, 2}));
  bn1_ = register_module("bn1", BatchNorm2d(kStemChannels));
  int64_t channels = kStemChannels;
  for (size_t stage = 0; stage < options.blocks.size(); ++stage) {
    torch::nn::Sequential layer;
    stages_.emplace_back();
    for (int64_t i = 0; i < options.blocks[stage]; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      ResidualBlock block(options.bottleneck, channels, kStemChannels << stage, stride);
      channels = block->out_channels();
      layer->push_back(block);
      stages_.back().push_back(block);
    }
    register_module("layer" + std::to_string(stage + 1), layer);
  }
  fc_ = register_module("fc", Linear(channels, options.num_classes));
  Initialize(options.zero_init_residual);
}

// As in torchvision: convolutions are normal with variance 2 / fan-out (He et al. 2015, arXiv:1502.01852).
void ResNet::Initialize(bool zero_init_residual) {
  DrawWeights(conv1_);
  for (auto& stage : stages_) {
    for (auto& block : stage) {
      for (auto& conv : block->convolutions()) DrawWeights(conv);
      if (zero_init_residual) torch::nn::init::zeros_(block->last_norm()->weight);
    }
  }
}

at::Tensor ResNet::Features(const at::Tensor& images_NCHW) {
  ResidualPair x = bn1_->Activated(conv1_(images_NCHW), Activation::kReluPool);
  for (auto& stage : stages_) {
    for (auto& block : stage) x = block(x);
  }
  return PixelMeans(x.main);
}

Family ResNetFamily() {
  const std::pair<const char*, ResNetOptions> table[] = {
      {"18", {.bottleneck = false, .blocks = {2, 2, 2, 2}}},  {"34", {.bottleneck = false, .blocks = {3, 4, 6, 3}}},
      {"50", {.bottleneck = true, .blocks = {3, 4, 6, 3}}},   {"101", {.bottleneck = true, .blocks = {3, 4, 23, 3}}},
      {"152", {.bottleneck = true, .blocks = {3, 8, 36, 3}}},
  };
  Family family = {.name = "ResNets",
                   .input = Input::kImages,
                   .heads = {{"fc", "fc.weight"}},
                   .options = {"zero_init_residual", "bn_momentum", "bn_eps"},
                   .models = {},
                   .config_fields = kConfigFields,
                   .pools_maxima = true,
                   .name_order = {"conv1", "bn1", "conv2", "bn2", "conv3", "bn3", "downsample", "layer1", "layer2",
                                  "layer3", "layer4", "fc"},
                   .naming_of = [](const WeightShapes& weights) -> std::string {
                     return HuggingFaceNamesOf(weights) == HuggingFaceNames::kResNet ? "hf" : "";
                   },
                   .own_names = [](const NamedWeights& weights, const Model&,
                                   std::vector<std::string>*) { return FromHuggingFace(weights); },
                   .norm_stride = 32};
  for (const auto& [layers, options] : table) {
    const auto make = [own = options](const ImageModelOptions& given) {
      ResNetOptions resnet = own;
      resnet.num_classes = given.num_classes;
      resnet.zero_init_residual = given.zero_init_residual;
      return std::make_shared<ResNet>(resnet);
    };
    const auto fits = [own = options](const WeightShapes& weights) {
      return weights.contains("layer1.0.conv3.weight") == own.bottleneck &&
             HaveBlocks(weights, "layer", {own.blocks.begin(), own.blocks.end()});
    };
    family.models.push_back({.name = std::string("resnet") + layers,
                             .description = std::string("ResNet of ") + layers + " layers",
                             .config_fields = ConfigFieldsOf(options),
                             .make = make,
                             .fits = fits});
  }
  return family;
}

}  // namespace dtrain::models
