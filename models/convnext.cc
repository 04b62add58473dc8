// ConvNeXt (Liu et al. 2022, arXiv:2201.03545) and ConvNeXt V2 (Woo et al. 2023, arXiv:2301.00808). Names, logits and
// the distribution of initial weights are timm's. Activations stay channels last: LayerNorm and products go over the
// channels of a pixel, which lie side by side.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>

#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "models/cpu_operations.h"
#include "models/family.h"
#include "models/layers.h"

namespace dtrain::models {
namespace {

struct ConvNextOptions {
  std::array<int64_t, 4> blocks;  // per stage
  int64_t width;                  // channels of the first stage; each has twice as many as the one before
  bool second = false;            // V2: global response normalisation in place of LayerScale

  // timm's small members have their products as 1×1 convolutions: two more dimensions of size 1 in the weights.
  bool convolves() const { return width < 96; }
};

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
constexpr auto kConvNextPrefixes = std::to_array<std::string_view>({"convnext.", "convnextv2."});

// torchvision counts through: features.0 is the stem, 2s + 1 stage s, and 2s what comes before it.
constexpr auto kTorchvisionStages = std::to_array<NamePair>({
    {"stem.", "features.0."},
    {"stages.0.blocks.", "features.1."},
    {"stages.1.downsample.", "features.2."},
    {"stages.1.blocks.", "features.3."},
    {"stages.2.downsample.", "features.4."},
    {"stages.2.blocks.", "features.5."},
    {"stages.3.downsample.", "features.6."},
    {"stages.3.blocks.", "features.7."},
    {"classifier.", "classifier."},
});
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

// Family::naming_of.
std::string NamingOfConvNext(const WeightShapes& weights) {
  if (ContainsWithin(weights, kConvNextPrefixes, "embeddings.patch_embeddings.weight")) return "hf";
  if (weights.contains("stem.0.weight") && weights.contains("stages.0.blocks.0.conv_dw.weight")) return "timm";
  return weights.contains("features.1.0.layer_scale") ? "torchvision" : "";
}

// Family::own_names.
NamedWeights OwnNamesOfConvNext(const NamedWeights& weights, const Model&, std::vector<std::string>*) {
  const std::string naming = NamingOfConvNext(ShapesOf(weights));
  if (naming != "hf" && naming != "torchvision") return weights;
  NamedWeights own = naming == "hf" ? WithOurNames(WithoutPrefixes(weights, kConvNextPrefixes), kHuggingFaceConvNext)
                                    : WithOurNames(WithOurNames(weights, kTorchvisionStages), kTorchvisionConvNext);
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
    if (!is_hf && name.find(".block.3.weight") != std::string::npos && tensor.dim() == 4) return {};
  }
  return is_hf ? WithPrefix(std::move(theirs), kConvNextPrefixes[is_second ? 1 : 0], "classifier.")
               : WithTheirNames(theirs, kTorchvisionStages);
}

// Family::layer_of, as timm's group_matcher: a stage's first block and what comes before it go together.
int64_t LayerOfConvNext(std::string_view parameter) {
  constexpr std::string_view kStages = "stages.", kBlocks = ".blocks.";
  constexpr int64_t kMostBlocks = 1000;
  if (parameter.starts_with("stem.")) return 0;
  if (!parameter.starts_with(kStages)) return kWithHead;
  const std::string rest(parameter.substr(kStages.size()));
  const size_t blocks = rest.find(kBlocks);
  return 1 + std::stoll(rest) * kMostBlocks +
         (blocks == std::string::npos ? 0 : std::stoll(rest.substr(blocks + kBlocks.size())));
}

// Model::fits.
bool FitsConvNext(const ConvNextOptions& own, const WeightShapes& weights) {
  const std::vector<int64_t> product = SizesIn(weights, "stages.0.blocks.0.mlp.fc1.weight");
  return SizesIn(weights, "stem.0.weight") == std::vector<int64_t>{own.width, 3, 4, 4} &&
         product.size() == (own.convolves() ? 4U : 2U) && weights.contains("stages.0.blocks.0.gamma") != own.second &&
         HaveBlocks(weights, {"stages.", 0, ".blocks."}, own.blocks);
}

Conv2d WithoutOverlap(int64_t in_channels, int64_t out_channels, int64_t side) {
  return Conv2d(Conv2dOptions{.in_channels = in_channels,
                              .out_channels = out_channels,
                              .kernel_size = side,
                              .stride = side,
                              .bias = true,
                              .padding = 0});
}

// A product over the channels of each pixel, N×H×W×C.
struct PixelProduct {
  PixelProduct(int64_t in_channels, int64_t out_channels, bool convolves) {
    if (convolves) {
      convolution = Conv2d(Conv2dOptions{in_channels, out_channels, 1, 1, 1, /*bias=*/true});
    } else {
      linear = Linear(in_channels, out_channels, InitialWeights::kNotYet);
    }
  }

  std::shared_ptr<torch::nn::Module> module() const {
    if (linear) return linear.ptr();
    return convolution.ptr();
  }

  // Returns the result times gamma (C), if that is defined.
  at::Tensor Scaled(const at::Tensor& x_NHWC, const at::Tensor& gamma_C) {
    if (!gamma_C.defined() || x_NHWC.is_meta()) return (*this)(x_NHWC);
    if (x_NHWC.scalar_type() != at::kFloat || at::autocast::is_autocast_enabled(x_NHWC.device().type())) {
      return (*this)(x_NHWC)*gamma_C;
    }
    // To scale the weights takes less memory than to scale all pixels; in a half type they could vanish.
    const at::Tensor weight = linear ? linear->weight : convolution->weight.flatten(1);
    return Product(x_NHWC, weight * gamma_C.unsqueeze(1), bias() * gamma_C);
  }

  at::Tensor Multiplied(const at::Tensor& x_PC) const {
    return linear ? linear->Multiplied(x_PC) : at::linear(x_PC, convolution->GemmWeight().flatten(1));
  }
  const at::Tensor& bias() const { return linear ? linear->bias : convolution->bias; }

  at::Tensor operator()(const at::Tensor& x_NHWC) {
    if (linear) return linear(x_NHWC);
    if (x_NHWC.is_meta()) return convolution(x_NHWC.permute({0, 3, 1, 2})).permute({0, 2, 3, 1});
    std::vector<int64_t> sizes = x_NHWC.sizes().vec();
    sizes.back() = convolution->options.out_channels;
    return convolution(x_NHWC.flatten(0, 2)).view(sizes);
  }

  Conv2d convolution{nullptr};
  Linear linear{nullptr};
};

// Depthwise 7×7 convolution, LayerNorm, and two products, the first to four times the channels; added to the input. In
// training steps, all between the products is done by the device's kernels, if there are any for the tensors.
class ConvNextBlockImpl : public torch::nn::Module, public TextKernelUser {
 public:
  ConvNextBlockImpl(int64_t channels, const ConvNextOptions& options, double drop_path)
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

  // Takes and returns a tensor that two operations use: the convolution and the sum.
  ResidualPair forward(const ResidualPair& x_NCHW) {
    const at::Tensor& x = x_NCHW.main;
    if (kernels_ != nullptr && is_training() && x.is_contiguous(at::MemoryFormat::ChannelsLast) &&
        HasTextKernels(x.permute({0, 2, 3, 1}).flatten(0, 2), x.size(1))) {
      return ForwardWithKernels(x_NCHW);
    }
    const at::Tensor y_NHWC = Responding(ExactGelu(expand_(norm_(filter_(x).permute({0, 2, 3, 1})))));
    at::Tensor y_NCHW = project_.Scaled(y_NHWC, gamma_).permute({0, 3, 1, 2});
    if (!y_NCHW.is_meta()) {
      if (is_training() && drop_path_ > 0) y_NCHW = y_NCHW * DropSamples(y_NCHW, drop_path_);
      y_NCHW = x + y_NCHW;
    }
    return {y_NCHW, y_NCHW};
  }

 private:
  ResidualPair ForwardWithKernels(const ResidualPair& x_NCHW) {
    const auto last = [](const at::Tensor& y_NCHW) { return y_NCHW.permute({0, 2, 3, 1}); };
    const at::Tensor filtered_NHWC = last(filter_->WithoutBias(x_NCHW.main));
    std::vector<int64_t> sizes = filtered_NHWC.sizes().vec();
    const at::Tensor y_PC = norm_->forward(filtered_NHWC.flatten(0, 2), filter_->bias);
    at::Tensor inner = UnitOf(*kernels_, LinearUnit::kGelu, expand_.Multiplied(y_PC), expand_.bias());
    if (response_weight_.defined()) {
      inner = Responding(inner.view({sizes[0], sizes[1], sizes[2], -1})).flatten(0, 2);
    }
    const ResidualPair sum = SumNormalised(*kernels_, project_.Multiplied(inner), last(x_NCHW.shortcut).flatten(0, 2),
                                           {.x_bias = project_.bias(),
                                            .weight = {},
                                            .bias = {},
                                            .scale = gamma_,
                                            .dropout = drop_path_,
                                            .rows_of_sample = sizes[1] * sizes[2]});
    const auto as_images = [&](const at::Tensor& y) { return y.view(sizes).permute({0, 3, 1, 2}); };
    return {as_images(sum.main), as_images(sum.shortcut)};
  }

  // V2's global response normalisation.
  at::Tensor Responding(const at::Tensor& y_NHWC) const {
    if (!response_weight_.defined() || y_NHWC.is_meta()) return y_NHWC;
    const at::Tensor length = at::linalg_vector_norm(y_NHWC, 2, {1, 2}, /*keepdim=*/true);
    const at::Tensor relative = length / (length.mean({-1}, /*keepdim=*/true) + kResponseEpsilon);
    return y_NHWC + at::addcmul(response_bias_, response_weight_, y_NHWC * relative);
  }

  double drop_path_;
  Conv2d filter_{nullptr};
  LayerNorm norm_{nullptr};
  PixelProduct expand_, project_;
  at::Tensor gamma_, response_weight_, response_bias_;  // undefined where there is none
};
TORCH_MODULE(ConvNextBlock);

class ConvNext : public ImageModel {
 public:
  ConvNext(const ConvNextOptions& options, const ImageModelOptions& given) : dropout_(given.dropout.value_or(0)) {
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
        // Stochastic depth, from 0 in the first block to this in the last.
        const double depth = static_cast<double>(before) / static_cast<double>(total - 1);
        stage.blocks.emplace_back(channels, options, given.drop_path.value_or(0) * depth);
        blocks->push_back(stage.blocks.back());
      }
      parts->register_module("blocks", blocks);
      stages->push_back(parts);
      if (i + 1 < stages_.size()) channels *= 2;
    }
    register_module("stages", stages);
    norm_ = LayerNorm(channels, kConvNextEpsilon);
    classifier_ = Linear(channels, given.num_classes, InitialWeights::kNotYet);
    register_module("head", Group({{"norm", norm_.ptr()}, {"fc", classifier_.ptr()}}));
    // As in timm, whose normal distribution is cut off at a hundred of its deviations.
    for (auto& item : named_parameters()) {
      if (item.value().dim() > 1) torch::nn::init::normal_(item.value(), 0, 0.02);
    }
    ForEach<Conv2dImpl>(*this, [](Conv2dImpl& conv) { torch::nn::init::zeros_(conv.bias); });
  }

  at::Tensor Features(const at::Tensor& images_NCHW) override {
    at::Tensor x_NCHW = images_NCHW;
    for (Stage& stage : stages_) {
      const bool is_stem = &stage == &stages_.front();
      x_NCHW = is_stem ? stage.norm->OverChannels(stage.convolution(x_NCHW))
                       : stage.convolution(stage.norm->OverChannels(x_NCHW));
      ResidualPair pair = {x_NCHW, x_NCHW};
      for (ConvNextBlock& block : stage.blocks) pair = block(pair);
      x_NCHW = pair.main;
    }
    return norm_(PixelMeans(x_NCHW));
  }
  at::Tensor Classify(const at::Tensor& features_NC) override {
    return classifier_(at::dropout(features_NC, dropout_, is_training() && !features_NC.is_meta()));
  }

 private:
  // A convolution without overlap, and a norm before it, or behind it in the stem.
  struct Stage {
    LayerNorm norm{nullptr};
    Conv2d convolution{nullptr};
    std::vector<ConvNextBlock> blocks;
  };

  double dropout_;
  std::array<Stage, 4> stages_;
  LayerNorm norm_{nullptr};
  Linear classifier_{nullptr};
};

}  // namespace

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
                   .options = {"dropout", "drop_path", "bn_eps"},
                   .models = {},
                   .config_fields = kConvNextFields,
                   .naming_of = NamingOfConvNext,
                   .own_names = OwnNamesOfConvNext,
                   .names_of = NamesOfConvNext,
                   .layer_of = LayerOfConvNext};
  for (const bool second : {false, true}) {
    for (const auto& [name, sizes, has_first, has_second] : table) {
      if (second ? !has_second : !has_first) continue;
      ConvNextOptions options = sizes;
      options.second = second;
      std::string blocks;
      std::vector<int64_t> channels;
      for (size_t i = 0; i < options.blocks.size(); ++i) {
        blocks += (i > 0 ? ", " : "") + std::to_string(options.blocks[i]);
        channels.push_back(options.width << i);
      }
      family.models.push_back(
          {.name = std::string(second ? "convnextv2_" : "convnext_") + name,
           .description = std::string("ConvNeXt") + (second ? " V2" : "") + " of " + blocks + " blocks, " +
                          std::to_string(options.width) + " channels in the first ones",
           .least_size = kSmallestSide,
           .norm_epsilon = kConvNextEpsilon,
           .timm_norm_epsilon = kConvNextEpsilon,
           .config_fields = FieldsWith({{"model_type", second ? "convnextv2" : "convnext"},
                                        {"depths", options.blocks},
                                        {"hidden_sizes", channels}}),
           .hugging_face_class = std::string(second ? "ConvNextV2" : "ConvNext") + "ForImageClassification",
           .make = [options](const ImageModelOptions& given) { return std::make_shared<ConvNext>(options, given); },
           .fits = [options](const WeightShapes& weights) { return FitsConvNext(options, weights); }});
    }
  }
  return family;
}

}  // namespace dtrain::models
