// ResNet-18/34/50/101/152: He et al. 2015 (arXiv:1512.03385), with torchvision's parameter names and logits, and those
// with pre-activation (v2). A bottleneck strides in its 3×3 convolution (v1.5, as torchvision's), or, as published, in
// its first one (v1). Each family is one class: stages of residual blocks.
#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/sequential.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "models/family.h"
#include "models/image_networks.h"

namespace dtrain::models {
namespace {

constexpr int64_t kStemChannels = 64;
constexpr int64_t kBottleneckExpansion = 4;
constexpr std::string_view kFirstVersion = "_v1";

constexpr char kResNetFields[] = R"({
  "model_type": ["resnet"], "num_channels": [3], "embedding_size": [64], "hidden_act": ["relu"],
  "downsample_in_first_stage": [false],
  "stage_names": null, "out_features": null, "out_indices": null
})";

// Behind the prefix of their model.
constexpr auto kHuggingFaceResNet = std::to_array<NamePair>({
    {"conv1.", "embedder.embedder.convolution."},
    {"bn1.", "embedder.embedder.normalization."},
    {"layer@.#.downsample.0.", "encoder.stages.@.layers.#.shortcut.convolution."},
    {"layer@.#.downsample.1.", "encoder.stages.@.layers.#.shortcut.normalization."},
    {"layer@.#.conv@.", "encoder.stages.@.layers.#.layer.@.convolution."},
    {"layer@.#.bn@.", "encoder.stages.@.layers.#.layer.@.normalization."},
    {"fc.", "classifier.1."},
});
constexpr auto kResNetPrefix = std::to_array<std::string_view>({"resnet."});

// Family::naming_of. timm's names are torchvision's.
std::string NamingOfResNet(const WeightShapes& weights) {
  return ContainsWithin(weights, kResNetPrefix, "embedder.embedder.convolution.weight") ? "hf" : "";
}

// Family::unlike. Weights do not show where their model strides.
std::optional<Unlike> StridesUnlike(std::string_view trained, const Model& model) {
  const bool is_first = model.name.ends_with(kFirstVersion);
  const std::string first(kFirstVersion);
  if (trained != (is_first ? model.name.substr(0, model.name.size() - first.size()) : model.name + first)) return {};
  return Unlike{"a " + std::string(trained) +
                    ", whose bottlenecks stride in another convolution than those of --model=" + model.name,
                std::string(trained)};
}

// Family::names_of. timm's and torchvision's names are those here, and they have no v1.
NamedWeights NamesOfResNet(const NamedWeights& weights, const Model& model, std::string_view naming) {
  if (naming != "hf") {
    const bool is_theirs = naming == "timm" || naming == "torchvision";
    return is_theirs && model.name.ends_with(kFirstVersion) ? NamedWeights() : weights;
  }
  return WithPrefix(WithTheirNames(weights, kHuggingFaceResNet), kResNetPrefix[0], "classifier.");
}

std::string ResNetFieldsOf(const ResNetOptions& options) {
  std::vector<int64_t> sizes;
  for (size_t stage = 0; stage < options.blocks.size(); ++stage) {
    sizes.push_back((kStemChannels << stage) * (options.bottleneck ? kBottleneckExpansion : 1));
  }
  return FieldsWith({{"layer_type", options.bottleneck ? "bottleneck" : "basic"},
                     {"depths", options.blocks},
                     {"downsample_in_bottleneck", options.strides_first},
                     {"hidden_sizes", sizes}});
}

// Two 3×3 convolutions (basic) or 1×1, 3×3, 1×1 (bottleneck) around a shortcut.
class ResidualBlockImpl : public torch::nn::Module {
 public:
  ResidualBlockImpl(const ResNetOptions& net, int64_t in_channels, int64_t width, int64_t stride)
      : out_channels_(net.bottleneck ? width * kBottleneckExpansion : width) {
    const auto add = [this](const std::string& number, const Conv2dOptions& options) {
      const Conv2d conv = register_module("conv" + number, Conv2d(options));
      parts_.emplace_back(conv, register_module("bn" + number, BatchNorm2d(options.out_channels)));
    };
    if (net.bottleneck) {
      add("1", {in_channels, width, 1, net.strides_first ? stride : 1});
      add("2", {width, width, 3, net.strides_first ? 1 : stride});
      add("3", {width, out_channels_, 1});
    } else {
      add("1", {in_channels, width, 3, stride});
      add("2", {width, width, 3});
    }
    if (stride != 1 || in_channels != out_channels_) {
      shortcut_ = {Conv2d(Conv2dOptions{in_channels, out_channels_, 1, stride}), BatchNorm2d(out_channels_)};
      register_module("downsample", torch::nn::Sequential(shortcut_.first, shortcut_.second));
    }
  }

  ResidualPair forward(const ResidualPair& x_NCHW) {
    at::Tensor y = parts_[0].first(x_NCHW.main);
    for (size_t i = 1; i < parts_.size(); ++i) {
      y = parts_[i].first(parts_[i - 1].second->Activated(y, Activation::kRelu).main);
    }
    if (!shortcut_.first) return last_norm()->AddRelu(y, [&] { return x_NCHW.shortcut; });
    return last_norm()->AddRelu(
        y, [&] { return shortcut_.first(x_NCHW.shortcut); }, shortcut_.second.get());
  }

  // Returns the convolutions in order, the shortcut's last.
  std::vector<Conv2d> convolutions() const {
    std::vector<Conv2d> all;
    for (const auto& [conv, norm] : parts_) all.push_back(conv);
    if (shortcut_.first) all.push_back(shortcut_.first);
    return all;
  }
  BatchNorm2d last_norm() const { return parts_.back().second; }
  int64_t out_channels() const { return out_channels_; }

 private:
  using Part = std::pair<Conv2d, BatchNorm2d>;

  int64_t out_channels_;
  std::vector<Part> parts_;
  Part shortcut_{nullptr, nullptr};
};
TORCH_MODULE(ResidualBlock);

class ResNet : public ImageModel {
 public:
  ResNet(const ResNetOptions& options, const ImageModelOptions& given) {
    conv1_ = register_module("conv1", Conv2d(Conv2dOptions{3, kStemChannels, 7, 2}));
    bn1_ = register_module("bn1", BatchNorm2d(kStemChannels));
    int64_t channels = kStemChannels;
    for (size_t stage = 0; stage < options.blocks.size(); ++stage) {
      torch::nn::Sequential layer;
      for (int64_t i = 0; i < options.blocks[stage]; ++i) {
        const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        blocks_.emplace_back(options, channels, kStemChannels << stage, stride);
        channels = blocks_.back()->out_channels();
        layer->push_back(blocks_.back());
      }
      register_module("layer" + std::to_string(stage + 1), layer);
    }
    fc_ = register_module("fc", Linear(channels, given.num_classes));
    // As in torchvision: convolutions are normal with variance 2 / fan-out (He et al. 2015, arXiv:1502.01852).
    const auto draw = [](const Conv2d& conv) {
      torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
    };
    draw(conv1_);
    for (const ResidualBlock& block : blocks_) {
      for (const Conv2d& conv : block->convolutions()) draw(conv);
      if (given.zero_init_residual) torch::nn::init::zeros_(block->last_norm()->weight);
    }
  }

  at::Tensor Features(const at::Tensor& images_NCHW) override {
    ResidualPair x = bn1_->Activated(conv1_(images_NCHW), Activation::kReluPool);
    for (ResidualBlock& block : blocks_) x = block(x);
    return PixelMeans(x.main);
  }
  at::Tensor Classify(const at::Tensor& features_NC) override { return fc_(features_NC); }

 private:
  Conv2d conv1_{nullptr};
  BatchNorm2d bn1_{nullptr};
  std::vector<ResidualBlock> blocks_;
  Linear fc_{nullptr};
};

// The published ones, by their number of layers.
constexpr struct {
  const char* layers;
  ResNetOptions options;
} kResNetSizes[] = {
    {"18", {.bottleneck = false, .blocks = {2, 2, 2, 2}}},  {"34", {.bottleneck = false, .blocks = {3, 4, 6, 3}}},
    {"50", {.bottleneck = true, .blocks = {3, 4, 6, 3}}},   {"101", {.bottleneck = true, .blocks = {3, 4, 23, 3}}},
    {"152", {.bottleneck = true, .blocks = {3, 8, 36, 3}}},
};

// ResNets that normalise before they convolve: He et al. 2016 (arXiv:1603.05027), as MXNet has them
// (example/image-classification/symbols/resnet.py of 1.9.1). The images themselves are normalised first, by a layer
// whose scale stays 1; a bottleneck strides in its 3×3 convolution; the first unit of each stage projects its activated
// input. Parameter names are MXNet's with dots, and initial weights as it draws them.
constexpr BatchNormOptions kMxnetNorm = {.epsilon = 2e-5};

class PreactivatedUnitImpl : public torch::nn::Module {
 public:
  PreactivatedUnitImpl(bool is_bottleneck, int64_t in, int64_t out, int64_t stride, bool projects) {
    const int64_t width = out / kBottleneckExpansion;
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
    conv0_ = register_module("conv0", Conv2d(Conv2dOptions{3, kStemChannels, 7, 2}));
    bn0_ = register_module("bn0", BatchNorm2d(kStemChannels, kMxnetNorm));
    int64_t channels = kStemChannels;
    for (size_t stage = 0; stage < options.blocks.size(); ++stage) {
      torch::nn::Sequential units;
      const int64_t out = (kStemChannels << stage) * (options.bottleneck ? kBottleneckExpansion : 1);
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

std::shared_ptr<ImageModel> MakeResNet(const ResNetOptions& options, const ImageModelOptions& given) {
  return std::make_shared<ResNet>(options, given);
}

Family ResNetFamily() {
  Family family = {
      .name = "ResNets",
      .input = Input::kImages,
      .heads = {{"fc", "fc.weight"}},
      .options = {"zero_init_residual", "bn_momentum", "bn_eps"},
      .models = {},
      .config_fields = kResNetFields,
      .pools_maxima = true,
      .naming_of = NamingOfResNet,
      .own_names = [](const NamedWeights& weights, const Model&, std::vector<std::string>*) -> NamedWeights {
        if (NamingOfResNet(ShapesOf(weights)).empty()) return weights;
        return WithOurNames(WithoutPrefixes(weights, kResNetPrefix), kHuggingFaceResNet);
      },
      .names_of = NamesOfResNet,
      .norm_stride = 32,
      .unlike = StridesUnlike};
  const auto add = [&family](const char* layers, const ResNetOptions& options) {
    const auto fits = [own = options](const WeightShapes& weights) {
      return weights.contains("layer1.0.conv3.weight") == own.bottleneck &&
             HaveBlocks(weights, {"layer", 1, "."}, own.blocks);
    };
    const bool first = options.strides_first;
    family.models.push_back(
        {.name = std::string("resnet") + layers + std::string(first ? kFirstVersion : ""),
         .description = std::string("ResNet of ") + layers + " layers" + (first ? ", as published at first" : ""),
         .config_fields = ResNetFieldsOf(options),
         .hugging_face_class = "ResNetForImageClassification",
         .make = [own = options](const ImageModelOptions& given) { return MakeResNet(own, given); },
         .fits = fits});
  };
  for (const auto& [layers, options] : kResNetSizes) add(layers, options);
  for (auto [layers, options] : kResNetSizes) {
    options.strides_first = true;
    if (options.bottleneck) add(layers, options);
  }
  return family;
}

Family ResNetV2Family() {
  Family family = {.name = "pre-activation ResNets",
                   .input = Input::kImages,
                   .heads = {{"fc1", "fc1.weight"}},
                   .options = {"bn_momentum", "bn_eps"},
                   .models = {},
                   .pools_maxima = true,
                   // No other program has them.
                   .names_of = [](const NamedWeights& weights, const Model&,
                                  std::string_view naming) { return naming == "auto" ? weights : NamedWeights(); },
                   .norm_stride = 32};
  for (const auto& [layers, options] : kResNetSizes) {
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
