// Activations stay channels last: LayerNorm and products go over the channels of a pixel, which lie side by side.
#include "models/convnext.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>

#include <numeric>
#include <string>

#include "models/family.h"
#include "models/product.h"
#include "models/renaming.h"

namespace dtrain::models {
namespace {

constexpr double kConvNextEpsilon = 1e-6, kResponseEpsilon = 1e-6, kFirstScale = 1e-6;
constexpr int64_t kSmallestSide = 32;  // pixels, of which one is left

constexpr char kConvNextFields[] = R"({
  "model_type": ["convnext", "convnextv2"], "num_channels": [3], "patch_size": [4], "num_stages": [4],
  "hidden_act": ["gelu"], "layer_norm_eps": [1e-6, 1e-12],
  "image_size": null, "initializer_range": null, "layer_scale_init_value": null, "drop_path_rate": null,
  "stage_names": null, "out_features": null, "out_indices": null
})";

// Behind the prefix of their model.
constexpr auto kHuggingFaceConvNext = std::to_array<NamePair>({
    {"stem.0.", "embeddings.patch_embeddings."},
    {"stem.1.", "embeddings.layernorm."},
    {"stages.#.downsample.#.", "encoder.stages.#.downsampling_layer.#."},
    {"stages.#.blocks.#.conv_dw.", "encoder.stages.#.layers.#.dwconv."},
    {"stages.#.blocks.#.norm.", "encoder.stages.#.layers.#.layernorm."},
    {"stages.#.blocks.#.mlp.fc1.", "encoder.stages.#.layers.#.pwconv1."},
    {"stages.#.blocks.#.mlp.fc2.", "encoder.stages.#.layers.#.pwconv2."},
    {"stages.#.blocks.#.mlp.grn.", "encoder.stages.#.layers.#.grn."},
    {"stages.#.blocks.#.gamma", "encoder.stages.#.layers.#.layer_scale_parameter"},
    {"head.norm.", "layernorm."},
    {"head.fc.", "classifier."},
});
constexpr std::string_view kFirstPrefix = "convnext.", kSecondPrefix = "convnextv2.";

// With timm's names of stages.
constexpr auto kTorchvisionConvNext = std::to_array<NamePair>({
    {"stages.#.blocks.#.conv_dw.", "stages.#.blocks.#.block.0."},
    {"stages.#.blocks.#.norm.", "stages.#.blocks.#.block.2."},
    {"stages.#.blocks.#.mlp.fc1.", "stages.#.blocks.#.block.3."},
    {"stages.#.blocks.#.mlp.fc2.", "stages.#.blocks.#.block.5."},
    {"stages.#.blocks.#.gamma", "stages.#.blocks.#.layer_scale"},
    {"stages.#.downsample.", "stages.#.downsample."},
    {"stem.", "stem."},
    {"head.norm.", "classifier.0."},
    {"head.fc.", "classifier.2."},
});

// torchvision counts through: features.0 is the stem, 2s + 1 stage s, and 2s what comes before it.
std::string WithStages(const std::string& name) {
  constexpr std::string_view kFeatures = "features.";
  if (!name.starts_with(kFeatures)) return name;
  const size_t end = name.find('.', kFeatures.size());
  const std::string number = name.substr(kFeatures.size(), end - kFeatures.size());
  if (end == std::string::npos || number.size() != 1 || number < "0" || number > "9") return name;
  const int place = number.front() - '0';
  const std::string rest = name.substr(end + 1);
  if (place == 0) return "stem." + rest;
  return "stages." + std::to_string(place / 2) + (place % 2 == 0 ? ".downsample." : ".blocks.") + rest;
}

std::string WithFeatures(const std::string& name) {
  constexpr std::string_view kStem = "stem.", kStages = "stages.", kBlocks = ".blocks.", kDownsample = ".downsample.";
  if (name.starts_with(kStem)) return "features.0." + name.substr(kStem.size());
  if (!name.starts_with(kStages)) return name;
  const int stage = name.at(kStages.size()) - '0';
  const std::string rest = name.substr(kStages.size() + 1);
  const bool is_block = rest.starts_with(kBlocks);
  return "features." + std::to_string(2 * stage + (is_block ? 1 : 0)) + "." +
         rest.substr((is_block ? kBlocks : kDownsample).size());
}

// Family::naming_of.
std::string NamingOfConvNext(const WeightShapes& weights) {
  constexpr char kTheirs[] = "embeddings.patch_embeddings.weight";
  for (const std::string_view prefix : {std::string_view(), kFirstPrefix, kSecondPrefix}) {
    if (weights.contains(std::string(prefix) + kTheirs)) return "hf";
  }
  if (weights.contains("stem.0.weight") && weights.contains("stages.0.blocks.0.conv_dw.weight")) return "timm";
  return weights.contains("features.1.0.layer_scale") ? "torchvision" : "";
}

// Family::own_names.
NamedWeights OwnNamesOfConvNext(const NamedWeights& weights, const Model&, std::vector<std::string>*) {
  const std::string naming = NamingOfConvNext(ShapesOf(weights));
  if (naming != "hf" && naming != "torchvision") return weights;
  NamedWeights own = weights;
  for (auto& [name, tensor] : own) {
    if (naming == "torchvision") name = WithStages(name);
    for (const std::string_view prefix : {kFirstPrefix, kSecondPrefix}) {
      if (name.starts_with(prefix)) name.erase(0, prefix.size());
    }
  }
  own = WithOurNames(own, naming == "hf" ? std::span<const NamePair>(kHuggingFaceConvNext) : kTorchvisionConvNext);
  const std::vector<int64_t> stem = SizesIn(ShapesOf(own), "stem.0.weight");
  const bool convolves = !stem.empty() && ConvNextOptions{.blocks = {}, .width = stem[0]}.convolves();
  for (auto& [name, tensor] : own) {
    const bool is_product = name.find(".mlp.fc") != std::string::npos && tensor.dim() == 2;
    if (is_product && convolves) tensor = tensor.unsqueeze(-1).unsqueeze(-1);
    const bool is_vector = name.ends_with(".gamma") || name.find(".grn.") != std::string::npos;
    if (is_vector && tensor.dim() > 1) tensor = tensor.flatten();
  }
  return own;
}

// Family::names_of.
NamedWeights NamesOfConvNext(const NamedWeights& weights, const Model&, std::string_view naming) {
  if (naming != "hf" && naming != "torchvision") return weights;
  const bool is_hf = naming == "hf", is_second = !ShapesOf(weights).contains("stages.0.blocks.0.gamma");
  NamedWeights theirs =
      WithTheirNames(weights, is_hf ? std::span<const NamePair>(kHuggingFaceConvNext) : kTorchvisionConvNext);
  for (auto& [name, tensor] : theirs) {
    if (name.find(".pwconv") != std::string::npos && tensor.dim() == 4) tensor = tensor.flatten(1);
    if (name.find(".grn.") != std::string::npos) tensor = tensor.view({1, 1, 1, -1});
    if (name.ends_with(".layer_scale")) tensor = tensor.view({-1, 1, 1});
    if (is_hf && !name.starts_with("classifier.")) name.insert(0, is_second ? kSecondPrefix : kFirstPrefix);
    if (!is_hf && name.find(".block.3.weight") != std::string::npos && tensor.dim() == 4) return {};
    if (!is_hf) name = WithFeatures(name);
  }
  return theirs;
}

// Family::layer_of, as timm's group_matcher: a stage's first block and what comes before it go together.
std::optional<int64_t> LayerOfConvNext(std::string_view parameter) {
  constexpr std::string_view kStages = "stages.", kBlocks = ".blocks.";
  constexpr int64_t kMostBlocks = 1000;
  if (parameter.starts_with("stem.")) return 0;
  if (!parameter.starts_with(kStages)) return std::nullopt;
  const std::string rest(parameter.substr(kStages.size()));
  const size_t blocks = rest.find(kBlocks);
  return 1 + std::stoll(rest) * kMostBlocks +
         (blocks == std::string::npos ? 0 : std::stoll(rest.substr(blocks + kBlocks.size())));
}

// Model::fits.
bool FitsConvNext(const ConvNextOptions& own, const WeightShapes& weights) {
  const std::vector<int64_t> product = SizesIn(weights, "stages.0.blocks.0.mlp.fc1.weight");
  const size_t dimensions = own.convolves() ? 4 : 2;
  if (SizesIn(weights, "stem.0.weight") != std::vector<int64_t>{own.width, 3, 4, 4} || product.size() != dimensions ||
      weights.contains("stages.0.blocks.0.gamma") == own.second) {
    return false;
  }
  for (size_t stage = 0; stage < own.blocks.size(); ++stage) {
    const std::string blocks = "stages." + std::to_string(stage) + ".blocks.", norm = ".norm.weight";
    if (!weights.contains(blocks + std::to_string(own.blocks[stage] - 1) + norm)) return false;
    if (weights.contains(blocks + std::to_string(own.blocks[stage]) + norm)) return false;
  }
  return true;
}

Conv2d WithoutOverlap(int64_t in_channels, int64_t out_channels, int64_t side) {
  return Conv2d(Conv2dOptions{.in_channels = in_channels,
                              .out_channels = out_channels,
                              .kernel_size = side,
                              .stride = side,
                              .bias = true,
                              .padding = 0});
}

}  // namespace

PixelProduct::PixelProduct(int64_t in_channels, int64_t out_channels, bool convolves) {
  if (convolves) {
    convolution = Conv2d(Conv2dOptions{in_channels, out_channels, 1, 1, 1, /*bias=*/true});
  } else {
    linear = Linear(in_channels, out_channels, InitialWeights::kNotYet);
  }
}

std::shared_ptr<torch::nn::Module> PixelProduct::module() const {
  if (linear) return linear.ptr();
  return convolution.ptr();
}

at::Tensor PixelProduct::Scaled(const at::Tensor& x_NHWC, const at::Tensor& gamma_C) {
  if (!gamma_C.defined() || x_NHWC.is_meta()) return (*this)(x_NHWC);
  if (x_NHWC.scalar_type() != at::kFloat || at::autocast::is_autocast_enabled(x_NHWC.device().type())) {
    return (*this)(x_NHWC)*gamma_C;
  }
  // To scale the weights takes less memory than to scale all pixels; in a half type they could vanish.
  const at::Tensor weight = linear ? linear->weight : convolution->weight.flatten(1);
  return Product(x_NHWC, weight * gamma_C.unsqueeze(1), (linear ? linear->bias : convolution->bias) * gamma_C);
}

at::Tensor PixelProduct::operator()(const at::Tensor& x_NHWC) {
  if (linear) return linear(x_NHWC);
  if (x_NHWC.is_meta()) return convolution(x_NHWC.permute({0, 3, 1, 2})).permute({0, 2, 3, 1});
  std::vector<int64_t> sizes = x_NHWC.sizes().vec();
  sizes.back() = convolution->options.out_channels;
  return convolution(x_NHWC.flatten(0, 2)).view(sizes);
}

ConvNextBlockImpl::ConvNextBlockImpl(int64_t channels, const ConvNextOptions& options, double drop_path)
    : drop_path_(drop_path),
      expand_(channels, 4 * channels, options.convolves()),
      project_(4 * channels, channels, options.convolves()) {
  if (!options.second) gamma_ = register_parameter("gamma", at::full(channels, kFirstScale, DeviceOfNewWeights()));
  filter_ = Conv2d(Conv2dOptions{
      .in_channels = channels, .out_channels = channels, .kernel_size = 7, .groups = channels, .bias = true});
  register_module("conv_dw", filter_);
  norm_ = register_module("norm", LayerNorm(channels, kConvNextEpsilon));
  const auto mlp = register_module("mlp", Group({{"fc1", expand_.module()}}));
  if (options.second) {
    const auto response = Group({});
    response_weight_ = response->register_parameter("weight", at::zeros(4 * channels, DeviceOfNewWeights()));
    response_bias_ = response->register_parameter("bias", at::zeros(4 * channels, DeviceOfNewWeights()));
    mlp->register_module("grn", response);
  }
  mlp->register_module("fc2", project_.module());
}

at::Tensor ConvNextBlockImpl::forward(const at::Tensor& x_NCHW) {
  at::Tensor y_NHWC = ExactGelu(expand_(norm_(filter_(x_NCHW).permute({0, 2, 3, 1}))));
  if (response_weight_.defined() && !y_NHWC.is_meta()) {
    const at::Tensor length = at::linalg_vector_norm(y_NHWC, 2, {1, 2}, /*keepdim=*/true);
    const at::Tensor relative = length / (length.mean({-1}, /*keepdim=*/true) + kResponseEpsilon);
    y_NHWC = y_NHWC + at::addcmul(response_bias_, response_weight_, y_NHWC * relative);
  }
  at::Tensor y_NCHW = project_.Scaled(y_NHWC, gamma_).permute({0, 3, 1, 2});
  if (y_NCHW.is_meta()) return y_NCHW;
  if (is_training() && drop_path_ > 0) y_NCHW = y_NCHW * DropSamples(y_NCHW, drop_path_);
  return x_NCHW + y_NCHW;
}

ConvNext::ConvNext(const ConvNextOptions& options) : dropout_(options.dropout) {
  const int64_t total = std::accumulate(options.blocks.begin(), options.blocks.end(), int64_t{0});
  torch::nn::ModuleList stages;
  int64_t channels = options.width, before = 0;
  for (size_t i = 0; i < stages_.size(); ++i) {
    Stage& stage = stages_[i];
    const auto parts = Group({});
    stage.norm = LayerNorm(i == 0 ? channels : channels / 2, kConvNextEpsilon);
    if (i == 0) {
      stage.convolution = WithoutOverlap(3, channels, 4);
      register_module("stem", Group({{"0", stage.convolution.ptr()}, {"1", stage.norm.ptr()}}));
    } else {
      stage.convolution = WithoutOverlap(channels / 2, channels, 2);
      parts->register_module("downsample", Group({{"0", stage.norm.ptr()}, {"1", stage.convolution.ptr()}}));
    }
    torch::nn::ModuleList blocks;
    for (int64_t block = 0; block < options.blocks[i]; ++block, ++before) {
      const double depth = static_cast<double>(before) / static_cast<double>(total - 1);
      stage.blocks.emplace_back(channels, options, options.drop_path * depth);
      blocks->push_back(stage.blocks.back());
    }
    parts->register_module("blocks", blocks);
    stages->push_back(parts);
    if (i + 1 < stages_.size()) channels *= 2;
  }
  register_module("stages", stages);
  norm_ = LayerNorm(channels, kConvNextEpsilon);
  classifier_ = Linear(channels, options.num_classes, InitialWeights::kNotYet);
  register_module("head", Group({{"norm", norm_.ptr()}, {"fc", classifier_.ptr()}}));
  // As in timm, whose normal distribution is cut off at a hundred of its deviations.
  for (auto& item : named_parameters()) {
    if (item.value().dim() > 1) torch::nn::init::normal_(item.value(), 0, 0.02);
  }
  apply([](torch::nn::Module& module) {
    if (auto* conv = dynamic_cast<Conv2dImpl*>(&module)) torch::nn::init::zeros_(conv->bias);
  });
}

at::Tensor ConvNext::Features(const at::Tensor& images_NCHW) {
  at::Tensor x_NCHW = images_NCHW;
  for (Stage& stage : stages_) {
    const bool is_stem = &stage == &stages_.front();
    x_NCHW = is_stem ? stage.norm->OverChannels(stage.convolution(x_NCHW))
                     : stage.convolution(stage.norm->OverChannels(x_NCHW));
    for (ConvNextBlock& block : stage.blocks) x_NCHW = block(x_NCHW);
  }
  return norm_(PixelMeans(x_NCHW));
}

at::Tensor ConvNext::Classify(const at::Tensor& features_NC) {
  return classifier_(at::dropout(features_NC, dropout_, is_training() && !features_NC.is_meta()));
}

Family ConvNextFamily() {
  const struct {
    const char* name;
    ConvNextOptions options;
    bool has_first, has_second;
  } table[] = {
      {"atto", {.blocks = {2, 2, 6, 2}, .width = 40}, true, true},
      {"femto", {.blocks = {2, 2, 6, 2}, .width = 48}, true, true},
      {"pico", {.blocks = {2, 2, 6, 2}, .width = 64}, true, true},
      {"nano", {.blocks = {2, 2, 8, 2}, .width = 80}, true, true},
      {"tiny", {.blocks = {3, 3, 9, 3}, .width = 96}, true, true},
      {"small", {.blocks = {3, 3, 27, 3}, .width = 96}, true, true},
      {"base", {.blocks = {3, 3, 27, 3}, .width = 128}, true, true},
      {"large", {.blocks = {3, 3, 27, 3}, .width = 192}, true, true},
      {"xlarge", {.blocks = {3, 3, 27, 3}, .width = 256}, true, false},
      {"huge", {.blocks = {3, 3, 27, 3}, .width = 352}, false, true},
  };
  Family family = {.name = "ConvNeXts",
                   .input = Input::kImages,
                   .heads = {{"head.fc", "head.fc.weight"}},
                   .options = {"dropout", "drop_path", "bn_eps", "layer_decay"},
                   .models = {},
                   .config_fields = kConvNextFields,
                   .name_order = {"gamma", "stem", "stages", "downsample", "blocks", "conv_dw", "norm", "mlp", "fc1",
                                  "grn", "fc2", "head", "fc"},
                   .naming_of = NamingOfConvNext,
                   .own_names = OwnNamesOfConvNext,
                   .names_of = NamesOfConvNext,
                   .layer_of = LayerOfConvNext};
  for (const bool second : {false, true}) {
    for (const auto& [name, sizes, has_first, has_second] : table) {
      if (second ? !has_second : !has_first) continue;
      ConvNextOptions options = sizes;
      options.second = second;
      std::string blocks, channels;
      for (size_t i = 0; i < options.blocks.size(); ++i) {
        blocks += (i > 0 ? ", " : "") + std::to_string(options.blocks[i]);
        channels += (i > 0 ? ", " : "") + std::to_string(options.width << i);
      }
      const auto make = [options](const ImageModelOptions& given) {
        ConvNextOptions own = options;
        own.num_classes = given.num_classes;
        own.dropout = given.dropout.value_or(options.dropout);
        own.drop_path = given.drop_path.value_or(options.drop_path);
        return std::make_shared<ConvNext>(own);
      };
      family.models.push_back(
          {.name = std::string(second ? "convnextv2_" : "convnext_") + name,
           .description = std::string("ConvNeXt") + (second ? " V2" : "") + " of " + blocks + " blocks, " +
                          std::to_string(options.width) + " channels in the first ones",
           .least_size = kSmallestSide,
           .config_fields = R"({"model_type": [")" + std::string(second ? "convnextv2" : "convnext") +
                            R"("], "depths": [[)" + blocks + R"(]], "hidden_sizes": [[)" + channels + "]]}",
           .hugging_face_class = std::string(second ? "ConvNextV2" : "ConvNext") + "ForImageClassification",
           .make = make,
           .fits = [options](const WeightShapes& weights) { return FitsConvNext(options, weights); }});
    }
  }
  return family;
}

}  // namespace dtrain::models
