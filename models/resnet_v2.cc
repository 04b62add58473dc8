// ResNets that normalise before they convolve: He et al. 2016 (arXiv:1603.05027), as MXNet has them
// (example/image-classification/symbols/resnet.py of 1.9.1). The images themselves are normalised first, by a layer
// whose scale stays 1; a bottleneck strides in its 3×3 convolution; the first unit of each stage projects its activated
// input. Parameter names are MXNet's with dots, and initial weights as it draws them.
#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/sequential.h>

#include <array>
#include <utility>

#include "models/family.h"
#include "models/image_networks.h"

namespace dtrain::models {
namespace {

constexpr BatchNormOptions kMxnetNorm = {.epsilon = 2e-5};
constexpr int64_t kFirstChannels = 64;

class PreactivatedUnitImpl : public torch::nn::Module {
 public:
  PreactivatedUnitImpl(bool is_bottleneck, int64_t in, int64_t out, int64_t stride, bool projects) {
    const int64_t width = out / 4;
    if (is_bottleneck) {
      Add({in, width, 1});
      Add({width, width, 3, stride});
      Add({width, out, 1});
    } else {
      Add({in, out, 3, stride});
      Add({out, out, 3});
    }
    if (projects) shortcut_ = register_module("sc", Conv2d(Conv2dOptions{in, out, 1, stride}));
  }

  at::Tensor forward(const at::Tensor& x_NCHW) {
    const ResidualPair activated = parts_[0].first->Activated(x_NCHW, Activation::kRelu);
    at::Tensor y = parts_[0].second(activated.main);
    for (size_t i = 1; i < parts_.size(); ++i) {
      y = parts_[i].second(parts_[i].first->Activated(y, Activation::kRelu).main);
    }
    return y + (shortcut_ ? shortcut_(activated.shortcut) : x_NCHW);
  }

 private:
  void Add(const Conv2dOptions& options) {
    const std::string number = std::to_string(parts_.size() + 1);
    const BatchNorm2d norm = register_module("bn" + number, BatchNorm2d(options.in_channels, kMxnetNorm));
    parts_.emplace_back(norm, register_module("conv" + number, Conv2d(options)));
  }

  std::vector<std::pair<BatchNorm2d, Conv2d>> parts_;
  Conv2d shortcut_{nullptr};
};
TORCH_MODULE(PreactivatedUnit);

class ResNetV2 : public ImageModel {
 public:
  ResNetV2(const ResNetOptions& options, const ImageModelOptions& given) {
    BatchNormOptions of_images = kMxnetNorm;
    of_images.scales = false;
    bn_data_ = register_module("bn_data", BatchNorm2d(3, of_images));
    conv0_ = register_module("conv0", Conv2d(Conv2dOptions{3, kFirstChannels, 7, 2}));
    bn0_ = register_module("bn0", BatchNorm2d(kFirstChannels, kMxnetNorm));
    int64_t channels = kFirstChannels;
    for (size_t stage = 0; stage < options.blocks.size(); ++stage) {
      torch::nn::Sequential units;
      const int64_t out = (kFirstChannels << stage) * (options.bottleneck ? 4 : 1);
      for (int64_t i = 0; i < options.blocks[stage]; ++i) {
        units_.emplace_back(options.bottleneck, channels, out, stage > 0 && i == 0 ? 2 : 1, /*projects=*/i == 0);
        units->push_back(units_.back());
        channels = out;
      }
      register_module("stage" + std::to_string(stage + 1), units);
    }
    bn1_ = register_module("bn1", BatchNorm2d(channels, kMxnetNorm));
    fc1_ = register_module("fc1", Linear(channels, given.num_classes, InitialWeights::kNotYet));
    // Xavier(rnd_type="gaussian", factor_type="in", magnitude=2): variance 2 / fan-in, the classifier's, too.
    for (const at::Tensor& weight : parameters()) {
      if (weight.dim() > 1) torch::nn::init::kaiming_normal_(weight, 0, torch::kFanIn, torch::kReLU);
    }
  }

  at::Tensor Features(const at::Tensor& images_NCHW) override {
    at::Tensor x = bn_data_(images_NCHW.narrow(1, 0, 3));
    x = bn0_->Activated(conv0_(x), Activation::kReluPool).main;
    for (PreactivatedUnit& unit : units_) x = unit(x);
    return PixelMeans(bn1_->Activated(x, Activation::kRelu).main);
  }
  at::Tensor Classify(const at::Tensor& features_NC) override { return fc1_(features_NC); }

 private:
  BatchNorm2d bn_data_{nullptr}, bn0_{nullptr}, bn1_{nullptr};
  Conv2d conv0_{nullptr};
  std::vector<PreactivatedUnit> units_;
  Linear fc1_{nullptr};
};

}  // namespace

Family ResNetV2Family() {
  Family family = {.name = "pre-activation ResNets",
                   .input = Input::kImages,
                   .heads = {{"fc1", "fc1.weight"}},
                   .options = {"bn_momentum", "bn_eps"},
                   .models = {},
                   .pools_maxima = true,
                   .name_order = {"bn_data", "conv0", "bn0", "bn1", "conv1", "bn2", "conv2", "bn3", "conv3", "sc",
                                  "stage1", "stage2", "stage3", "stage4", "fc1"},
                   // No other program has them.
                   .names_of = [](const NamedWeights& weights, const Model&,
                                  std::string_view naming) { return naming == "auto" ? weights : NamedWeights(); },
                   .norm_stride = 32};
  for (const auto& [layers, options] : ResNetSizes()) {
    family.models.push_back(
        {.name = "resnet" + std::string(layers) + "_v2",
         .description = "ResNet of " + std::string(layers) + " layers, normalised before its convolutions",
         .norm_epsilon = kMxnetNorm.epsilon,
         .make = [own = options](const ImageModelOptions& given) { return std::make_shared<ResNetV2>(own, given); },
         .fits =
             [own = options](const WeightShapes& weights) {
               return weights.contains("bn_data.bias") && weights.contains("stage1.0.conv3.weight") == own.bottleneck &&
                      HaveBlocks(weights, {"stage", 1, "."}, own.blocks);
             }});
  }
  return family;
}

}  // namespace dtrain::models
