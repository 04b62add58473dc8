// B0 is a table of stages, which B1 to B7 scale; each member of V2 has a table of its own.
#include "models/efficientnet.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <numeric>
#include <string>

#include "models/family.h"
#include "models/image_weight_names.h"
#include "models/renaming.h"

namespace dtrain::models {
namespace {

using Stages = std::vector<EfficientNetStage>;

constexpr EfficientNetStage kFirstVersion[] = {{1, 3, 1, 32, 16, 1},  {6, 3, 2, 16, 24, 2},  {6, 5, 2, 24, 40, 2},
                                               {6, 3, 2, 40, 80, 3},  {6, 5, 1, 80, 112, 3}, {6, 5, 2, 112, 192, 4},
                                               {6, 3, 1, 192, 320, 1}};
constexpr int64_t kHeadExpansion = 4;
constexpr int64_t kSqueeze = 4;  // divides the channels of the block's input, not of its expansion

// Returns the multiple of 8 that is nearest to base · width, or the next one if that is more than a tenth smaller.
int64_t Channels(int64_t base, double width) {
  constexpr int64_t kMultiple = 8;
  const double wanted = static_cast<double>(base) * width;
  const int64_t nearest = std::max(kMultiple, static_cast<int64_t>(wanted + kMultiple / 2.0) / kMultiple * kMultiple);
  return static_cast<double>(nearest) < 0.9 * wanted ? nearest + kMultiple : nearest;
}

// Returns the stages of B0 with factors on channels and blocks.
Stages Scaled(double width, double depth) {
  Stages stages(std::begin(kFirstVersion), std::end(kFirstVersion));
  for (EfficientNetStage& stage : stages) {
    stage.in_channels = Channels(stage.in_channels, width);
    stage.out_channels = Channels(stage.out_channels, width);
    stage.blocks = static_cast<int64_t>(std::ceil(static_cast<double>(stage.blocks) * depth));
  }
  return stages;
}

// Returns the stages of V2 with these output channels, blocks, and strides from the fourth stage on. Three are fused.
Stages SecondVersion(const std::vector<int64_t>& channels, const std::vector<int64_t>& blocks) {
  constexpr int64_t kExpansions[] = {1, 4, 4, 4, 6, 6, 6}, kStrides[] = {1, 2, 2, 2, 1, 2, 1};
  Stages stages;
  for (size_t i = 0; i < channels.size(); ++i) {
    stages.push_back({kExpansions[i], 3, kStrides[i], channels[i > 0 ? i - 1 : 0], channels[i], blocks[i], i < 3});
  }
  return stages;
}

constexpr char kConfigFields[] = R"({
  "model_type": ["efficientnet"], "num_channels": [3], "depth_divisor": [8],
  "kernel_sizes": [[3, 3, 5, 3, 5, 5, 3]], "strides": [[1, 2, 2, 2, 1, 2, 1]], "expand_ratios": [[1, 6, 6, 6, 6, 6, 6]],
  "in_channels": [[32, 16, 24, 40, 80, 112, 192]], "out_channels": [[16, 24, 40, 80, 112, 192, 320]],
  "num_block_repeats": [[1, 2, 2, 3, 3, 4, 1]], "squeeze_expansion_ratio": [0.25],
  "hidden_act": ["swish", "silu"], "pooling_type": ["mean"], "batch_norm_eps": [0.001],
  "image_size": null, "num_hidden_layers": null, "initializer_range": null, "batch_norm_momentum": null,
  "dropout_rate": null, "drop_connect_rate": null
})";

// Returns the blocks that halve an odd number of rows of an image, which TensorFlow pads on both sides, and Hugging
// Face if the block is in its list `depthwise_padding`.
std::vector<int64_t> OddBlocks(const Stages& stages, int64_t side) {
  std::vector<int64_t> odd;
  int64_t rows = (side + 1) / 2, block = 0;
  for (const EfficientNetStage& stage : stages) {
    if (stage.stride == 2 && rows % 2 != 0) odd.push_back(block);
    rows = (rows + stage.stride - 1) / stage.stride;
    block += stage.blocks;
  }
  return odd;
}

std::string ConfigFieldsOf(const EfficientNetOptions& options, double width, double depth, int64_t image_size) {
  std::string padding;
  for (const int64_t block : OddBlocks(options.stages, image_size)) {
    padding += (padding.empty() ? "" : ", ") + std::to_string(block);
  }
  char fields[200];
  std::snprintf(
      fields, sizeof fields,
      R"({"width_coefficient": [%.1f], "depth_coefficient": [%.1f], "hidden_dim": [%lld], "depthwise_padding": )"
      R"([[%s]]})",
      width, depth, static_cast<long long>(options.head_channels), padding.c_str());
  return fields;
}

constexpr std::string_view kTensorflows = "tf_efficientnet", kOthers = "efficientnet";

bool IsTensorflows(std::string_view model) { return model.starts_with(kTensorflows); }

// Family::naming_of.
std::string NamingOfEfficientNet(const WeightShapes& weights) {
  if (HuggingFaceNamesOf(weights) == HuggingFaceNames::kEfficientNet) return "hf";
  const auto begins = [&weights](const std::string& start) {
    const auto found = weights.lower_bound(start);
    return found != weights.end() && found->first.starts_with(start);
  };
  return begins("conv_stem.") ? "timm" : begins("features.") ? "torchvision" : "";
}

// Family::trained_as. Hugging Face's are the authors' models.
std::string TrainedAs(const WeightShapes& weights, std::string_view file_name) {
  const bool is_hugging_faces = HuggingFaceNamesOf(weights) == HuggingFaceNames::kEfficientNet;
  return std::string(is_hugging_faces || file_name.find(kTensorflows) != std::string_view::npos ? kTensorflows : "");
}

// Family::unlike. Weights do not show whether a model pads images as TensorFlow does (Conv2dOptions).
std::optional<Unlike> PadsUnlike(std::string_view trained, const Model& model) {
  const bool pads = IsTensorflows(trained), is_known = pads || trained.starts_with(kOthers);
  if (!is_known || pads == IsTensorflows(model.name)) return std::nullopt;
  const bool is_member = pads ? model.name.starts_with(kOthers) : true;
  const std::string other = pads ? "tf_" + model.name : model.name.substr(kTensorflows.size() - kOthers.size());
  return Unlike{(pads ? "a " : "an ") + std::string(pads ? kTensorflows : kOthers) + " model, which " +
                    (pads ? "pads" : "does not pad") + " images as TensorFlow does; --model=" + model.name +
                    (pads ? " does not" : " does"),
                is_member ? other : std::string(kTensorflows) + "_b0 (to b7)"};
}

NamedWeights OwnNames(const NamedWeights& weights, const Model& model, std::vector<std::string>*) {
  return FromTimm(FromHuggingFace(weights), model.norm_epsilon - model.timm_norm_epsilon);
}

// Family::names_of.
NamedWeights NamesOf(const NamedWeights& weights, const Model& model, std::string_view naming) {
  if (naming == "hf") return {};
  return naming == "timm" ? ToTimm(weights, model.norm_epsilon - model.timm_norm_epsilon) : weights;
}

Model Member(const std::string& name, const std::string& description, const EfficientNetOptions& options,
             int64_t image_size) {
  const auto make = [options](const ImageModelOptions& given) {
    EfficientNetOptions scaled = options;
    scaled.num_classes = given.num_classes;
    scaled.dropout = given.dropout.value_or(options.dropout);
    scaled.drop_path = given.drop_path.value_or(options.drop_path);
    return std::make_shared<EfficientNet>(scaled);
  };
  const auto fits = [options](const WeightShapes& weights) {
    const Stages& stages = options.stages;
    std::vector<int64_t> blocks;
    for (const EfficientNetStage& stage : stages) blocks.push_back(stage.blocks);
    const std::vector<int64_t> head = {options.head_channels, stages.back().out_channels, 1, 1};
    return SizesIn(weights, "features." + std::to_string(stages.size() + 1) + ".0.weight") == head &&
           HaveBlocks(weights, "features.", blocks);
  };
  return {.name = name,
          .description = description + (options.pads_as_tensorflow ? ", padded as in TensorFlow" : ""),
          .image_size = image_size,
          .norm_epsilon = options.norm.epsilon,
          .timm_norm_epsilon = options.pads_as_tensorflow ? options.norm.epsilon : 1e-5,
          .make = make,
          .fits = fits};
}

}  // namespace

ConvNormImpl::ConvNormImpl(const Conv2dOptions& conv, const BatchNormOptions& norm, Activation activation)
    : activation_(activation) {
  conv_ = register_module("0", Conv2d(conv));
  norm_ = register_module("1", BatchNorm2d(conv.out_channels, norm));
}

ResidualPair ConvNormImpl::forward(const at::Tensor& x_NCHW) { return norm_->Activated(conv_(x_NCHW), activation_); }

ResidualPair ConvNormImpl::Add(const at::Tensor& x_NCHW, const at::Tensor& shortcut_NCHW,
                               const at::Tensor& factors_N111) {
  return norm_->Add(conv_(x_NCHW), shortcut_NCHW, factors_N111);
}

at::Tensor ConvNormImpl::SqueezeExcite(const at::Tensor& x_NCHW, const Excitation& excitation) {
  return norm_->SqueezeExcite(conv_(x_NCHW), excitation);
}

SqueezeExcitationImpl::SqueezeExcitationImpl(int64_t channels, int64_t squeezed_channels) {
  fc1_ = register_module("fc1", Conv2d(Conv2dOptions{channels, squeezed_channels, 1, 1, 1, /*bias=*/true}));
  fc2_ = register_module("fc2", Conv2d(Conv2dOptions{squeezed_channels, channels, 1, 1, 1, /*bias=*/true}));
}

at::Tensor SqueezeExcitationImpl::forward(const at::Tensor& means) { return fc2_(Silu(fc1_(means))).sigmoid(); }

MbConvImpl::MbConvImpl(const Options& options) : options_(options) {
  const int64_t expanded = Channels(options.in_channels * options.expansion, 1);
  const auto silu = Activation::kSilu;
  torch::nn::ModuleList block;
  const Conv2dOptions filter = {.in_channels = options.fused ? options.in_channels : expanded,
                                .out_channels = expanded,
                                .kernel_size = options.kernel_size,
                                .stride = options.stride,
                                .groups = options.fused ? 1 : expanded,
                                .pads_as_tensorflow = options.pads_as_tensorflow};
  if (options.fused) {
    expand_ = ConvNorm(filter, options.norm, silu);
    block->push_back(expand_);
  } else if (expanded != options.in_channels) {
    expand_ = ConvNorm(Conv2dOptions{options.in_channels, expanded, 1}, options.norm, silu);
    block->push_back(expand_);
  }
  if (!options.fused) {
    filter_ = ConvNorm(filter, options.norm, silu);
    weigh_ = SqueezeExcitation(expanded, std::max<int64_t>(1, options.in_channels / kSqueeze));
    block->push_back(filter_);
    block->push_back(weigh_);
  }
  if (!options.fused || options.expansion != 1) {
    project_ = ConvNorm(Conv2dOptions{expanded, options.out_channels, 1}, options.norm, Activation::kNone);
    block->push_back(project_);
  }
  register_module("block", block);
}

ResidualPair MbConvImpl::forward(const ResidualPair& x_NCHW) {
  at::Tensor y = expand_ ? expand_(x_NCHW.main).main : x_NCHW.main;
  if (filter_) y = filter_->SqueezeExcite(y, [this](const at::Tensor& means) { return weigh_(means); });
  const bool has_shortcut = options_.stride == 1 && options_.in_channels == options_.out_channels;
  if (!has_shortcut) return project_ ? project_(y) : ResidualPair{y, y};
  at::Tensor factors_N111;
  if (is_training() && options_.drop_path > 0 && !y.is_meta()) factors_N111 = DropSamples(y, options_.drop_path);
  if (project_) return project_->Add(y, x_NCHW.shortcut, factors_N111);
  if (factors_N111.defined()) y = y * factors_N111;
  if (!y.is_meta()) y = y + x_NCHW.shortcut;
  return {y, y};
}

EfficientNet::EfficientNet(const EfficientNetOptions& options) : dropout_(options.dropout) {
  const auto silu = Activation::kSilu;
  torch::nn::ModuleList features;
  int64_t channels = options.stages.front().in_channels;
  stem_ = ConvNorm(Conv2dOptions{.in_channels = 3,
                                 .out_channels = channels,
                                 .kernel_size = 3,
                                 .stride = 2,
                                 .pads_as_tensorflow = options.pads_as_tensorflow},
                   options.norm, silu);
  features->push_back(stem_);

  const auto total_blocks =
      std::accumulate(options.stages.begin(), options.stages.end(), int64_t{0},
                      [](int64_t sum, const EfficientNetStage& stage) { return sum + stage.blocks; });
  for (const EfficientNetStage& stage : options.stages) {
    torch::nn::ModuleList blocks;
    for (int64_t i = 0; i < stage.blocks; ++i) {
      const double depth = static_cast<double>(blocks_.size()) / static_cast<double>(total_blocks);
      const MbConv block(MbConvImpl::Options{.expansion = stage.expansion,
                                             .kernel_size = stage.kernel_size,
                                             .stride = i == 0 ? stage.stride : 1,
                                             .in_channels = channels,
                                             .out_channels = stage.out_channels,
                                             .drop_path = options.drop_path * depth,
                                             .norm = options.norm,
                                             .pads_as_tensorflow = options.pads_as_tensorflow,
                                             .fused = stage.fused});
      channels = stage.out_channels;
      blocks->push_back(block);
      blocks_.push_back(block);
    }
    features->push_back(blocks);
  }
  head_ = ConvNorm(Conv2dOptions{channels, options.head_channels, 1}, options.norm, silu);
  features->push_back(head_);
  register_module("features", features);

  classifier_ = Linear(options.head_channels, options.num_classes, InitialWeights::kNotYet);
  register_module("classifier", Group({{"1", classifier_.ptr()}}));  // module 0 is the dropout, which has no weights
  Initialize();
}

// As in torchvision: convolutions are normal with variance 2 / fan-out, the classifier is uniform in ±1/√classes,
// biases are 0.
void EfficientNet::Initialize() {
  apply([](torch::nn::Module& module) {
    if (auto* conv = dynamic_cast<Conv2dImpl*>(&module)) {
      torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut);
      if (conv->bias.defined()) torch::nn::init::zeros_(conv->bias);
    }
  });
  const double bound = 1 / std::sqrt(static_cast<double>(classifier_->weight.size(0)));
  torch::nn::init::uniform_(classifier_->weight, -bound, bound);
}

at::Tensor EfficientNet::Features(const at::Tensor& images_NCHW) {
  ResidualPair y = stem_(images_NCHW);
  for (MbConv& block : blocks_) y = block(y);
  return PixelMeans(head_(y.main).main);
}

at::Tensor EfficientNet::Classify(const at::Tensor& features_NC) {
  return classifier_(at::dropout(features_NC, dropout_, is_training() && !features_NC.is_meta()));
}

Family EfficientNetFamily() {
  // From the paper's table, with torchvision's ε and momentum.
  constexpr BatchNormOptions kSlow = {.epsilon = 1e-3, .momentum = 0.01}, kLarger = {.epsilon = 1e-3};
  const struct {
    double width, depth, dropout;
    int64_t image_size;
    BatchNormOptions norm = {};
  } table[] = {{1.0, 1.0, 0.2, 224},        {1.0, 1.1, 0.2, 240},       {1.1, 1.2, 0.3, 260},
               {1.2, 1.4, 0.3, 300},        {1.4, 1.8, 0.4, 380},       {1.6, 2.2, 0.4, 456, kSlow},
               {1.8, 2.6, 0.5, 528, kSlow}, {2.0, 3.1, 0.5, 600, kSlow}};
  const struct {
    const char* name;
    double dropout;
    int64_t image_size;
    Stages stages;
    bool is_torchvisions = true;
  } second[] = {
      {"s", 0.2, 384, SecondVersion({24, 48, 64, 128, 160, 256}, {2, 4, 4, 6, 9, 15})},
      {"m", 0.3, 480, SecondVersion({24, 48, 80, 160, 176, 304, 512}, {3, 5, 5, 7, 14, 18, 5})},
      {"l", 0.4, 480, SecondVersion({32, 64, 96, 192, 224, 384, 640}, {4, 7, 7, 10, 19, 25, 7})},
      {"xl", 0.4, 512, SecondVersion({32, 64, 96, 192, 256, 512, 640}, {4, 8, 8, 16, 24, 32, 8}), false},
  };
  Family family = {.name = "EfficientNets",
                   .input = Input::kImages,
                   .heads = {{"classifier.1", "classifier.1.weight"}},
                   .options = {"dropout", "drop_path", "bn_momentum", "bn_eps"},
                   .models = {},
                   .config_fields = kConfigFields,
                   .name_order = {"features", "classifier"},
                   .naming_of = NamingOfEfficientNet,
                   .own_names = OwnNames,
                   .names_of = NamesOf,
                   .norm_stride = 32,
                   .trained_as = TrainedAs,
                   .unlike = PadsUnlike};
  for (const bool pads : {false, true}) {
    const std::string prefix = pads ? "tf_efficientnet" : "efficientnet";
    for (size_t i = 0; i < std::size(table); ++i) {
      const auto& row = table[i];
      const EfficientNetOptions options = {
          .stages = Scaled(row.width, row.depth),
          .head_channels = kHeadExpansion * Channels(std::rbegin(kFirstVersion)->out_channels, row.width),
          .dropout = row.dropout,
          .norm = pads ? kLarger : row.norm,
          .pads_as_tensorflow = pads};
      char description[64];
      std::snprintf(description, sizeof description, "EfficientNet of width %.1f and depth %.1f", row.width, row.depth);
      Model model = Member(prefix + "_b" + std::to_string(i), description, options, row.image_size);
      if (pads) {
        // The first convolution is padded for even sizes.
        model.pads_as_hugging_face = [stages = options.stages, native = row.image_size](int64_t side) {
          return side % 2 == 0 && OddBlocks(stages, side) == OddBlocks(stages, native);
        };
        model.config_fields = ConfigFieldsOf(options, row.width, row.depth, row.image_size);
      }
      family.models.push_back(model);
    }
    for (const auto& row : second) {
      if (!pads && !row.is_torchvisions) continue;
      const EfficientNetOptions options = {
          .stages = row.stages, .dropout = row.dropout, .norm = kLarger, .pads_as_tensorflow = pads};
      std::string size = row.name;
      std::ranges::transform(size, size.begin(), [](unsigned char c) { return std::toupper(c); });
      family.models.push_back(Member(prefix + "v2_" + row.name, "EfficientNetV2-" + size, options, row.image_size));
    }
  }
  return family;
}

}  // namespace dtrain::models
