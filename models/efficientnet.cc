// EfficientNet-B0…B7: Tan and Le 2019 (arXiv:1905.11946), and EfficientNetV2: Tan and Le 2021 (arXiv:2104.00298).
// Parameter names, logits, BatchNorm's ε and momentum, and the distribution of initial weights are torchvision's. Those
// of tf_efficientnet… are timm's: with TensorFlow's padding and ε, as the authors' models and Hugging Face's have them.
// B0 is a table of stages, which B1 to B7 scale; each member of V2 has a table of its own.
#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "models/family.h"
#include "models/image_networks.h"

namespace dtrain::models {
namespace {

using Stages = std::vector<EfficientNetStage>;

constexpr EfficientNetStage kFirstVersion[] = {{1, 3, 1, 32, 16, 1},  {6, 3, 2, 16, 24, 2},  {6, 5, 2, 24, 40, 2},
                                               {6, 3, 2, 40, 80, 3},  {6, 5, 1, 80, 112, 3}, {6, 5, 2, 112, 192, 4},
                                               {6, 3, 1, 192, 320, 1}};
constexpr int64_t kHeadExpansion = 4;
constexpr double kDropPath = 0.2;  // stochastic depth (arXiv:1603.09382), by row: block i of n drops this · i / n
constexpr int64_t kSqueeze = 4;    // divides the channels of the block's input, not of its expansion

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

constexpr char kEfficientNetFields[] = R"({
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

std::string EfficientNetFieldsOf(const EfficientNetOptions& options, double width, double depth, int64_t image_size) {
  return FieldsWith({{"width_coefficient", width},
                     {"depth_coefficient", depth},
                     {"hidden_dim", options.head_channels},
                     {"depthwise_padding", OddBlocks(options.stages, image_size)}});
}

constexpr std::string_view kTensorflows = "tf_efficientnet", kOthers = "efficientnet";

bool IsTensorflows(std::string_view model) { return model.starts_with(kTensorflows); }

// torchvision numbers the parts of a block, timm and Hugging Face name them. A number's meaning depends on whether the
// block expands its channels and filters them apart. timm does not count the stem as a stage.
constexpr auto kTimmsEfficientNet = std::to_array<NamePair>({
    {"features.0.0.", "conv_stem."},
    {"features.0.1.", "bn1."},
    {"features.@.#.block.0.0.", "blocks.@.#.conv_pw."},
    {"features.@.#.block.0.1.", "blocks.@.#.bn1."},
    {"features.@.#.block.1.0.", "blocks.@.#.conv_dw."},
    {"features.@.#.block.1.1.", "blocks.@.#.bn2."},
    {"features.@.#.block.2.fc1.", "blocks.@.#.se.conv_reduce."},
    {"features.@.#.block.2.fc2.", "blocks.@.#.se.conv_expand."},
    {"features.@.#.block.3.0.", "blocks.@.#.conv_pwl."},
    {"features.@.#.block.3.1.", "blocks.@.#.bn3."},
    {"features.head.0.", "conv_head."},
    {"features.head.1.", "bn2."},
    {"classifier.1.", "classifier."},
});
// The rows before these: the first stage does not expand.
constexpr auto kTimmsFirstVersion = std::to_array<NamePair>({
    {"features.1.#.block.0.0.", "blocks.0.#.conv_dw."},
    {"features.1.#.block.0.1.", "blocks.0.#.bn1."},
    {"features.1.#.block.1.fc1.", "blocks.0.#.se.conv_reduce."},
    {"features.1.#.block.1.fc2.", "blocks.0.#.se.conv_expand."},
    {"features.1.#.block.2.0.", "blocks.0.#.conv_pw."},
    {"features.1.#.block.2.1.", "blocks.0.#.bn2."},
});
// Three stages are fused.
constexpr auto kTimmsSecondVersion = std::to_array<NamePair>({
    {"features.1.#.block.0.0.", "blocks.0.#.conv."},
    {"features.1.#.block.0.1.", "blocks.0.#.bn1."},
    {"features.2.#.block.0.0.", "blocks.1.#.conv_exp."},
    {"features.2.#.block.0.1.", "blocks.1.#.bn1."},
    {"features.2.#.block.1.0.", "blocks.1.#.conv_pwl."},
    {"features.2.#.block.1.1.", "blocks.1.#.bn2."},
    {"features.3.#.block.0.0.", "blocks.2.#.conv_exp."},
    {"features.3.#.block.0.1.", "blocks.2.#.bn1."},
    {"features.3.#.block.1.0.", "blocks.2.#.conv_pwl."},
    {"features.3.#.block.1.1.", "blocks.2.#.bn2."},
});
constexpr std::string_view kCountedHead = "features.head.";  // torchvision counts it as the last stage

// Behind the prefix of their model, once stages are counted.
constexpr auto kHuggingFaceEfficientNet = std::to_array<NamePair>({
    {"features.0.0.", "embeddings.convolution."},
    {"features.0.1.", "embeddings.batchnorm."},
    {"features.1.#.block.0.0.", "features.1.#.depthwise_conv.depthwise_conv."},
    {"features.1.#.block.0.1.", "features.1.#.depthwise_conv.depthwise_norm."},
    {"features.1.#.block.1.fc1.", "features.1.#.squeeze_excite.reduce."},
    {"features.1.#.block.1.fc2.", "features.1.#.squeeze_excite.expand."},
    {"features.1.#.block.2.0.", "features.1.#.projection.project_conv."},
    {"features.1.#.block.2.1.", "features.1.#.projection.project_bn."},
    {"features.#.#.block.0.0.", "features.#.#.expansion.expand_conv."},
    {"features.#.#.block.0.1.", "features.#.#.expansion.expand_bn."},
    {"features.#.#.block.1.0.", "features.#.#.depthwise_conv.depthwise_conv."},
    {"features.#.#.block.1.1.", "features.#.#.depthwise_conv.depthwise_norm."},
    {"features.#.#.block.2.fc1.", "features.#.#.squeeze_excite.reduce."},
    {"features.#.#.block.2.fc2.", "features.#.#.squeeze_excite.expand."},
    {"features.#.#.block.3.0.", "features.#.#.projection.project_conv."},
    {"features.#.#.block.3.1.", "features.#.#.projection.project_bn."},
    {"features.8.0.", "encoder.top_conv."},
    {"features.8.1.", "encoder.top_bn."},
    {"classifier.1.", "classifier."},
});
constexpr auto kEfficientNetPrefix = std::to_array<std::string_view>({"efficientnet."});

// Hugging Face counts the blocks through. A stage's blocks have equally many output channels.
NamedWeights WithCountedStages(NamedWeights weights) {
  constexpr std::string_view kBlocks = "encoder.blocks.";
  const WeightShapes shapes = ShapesOf(weights);
  std::map<std::string, std::string> places;  // of blocks
  int64_t stage = 0, of_stage = 0, channels = 0;
  for (int64_t block = 0;; ++block) {
    const std::string theirs = std::string(kBlocks) + std::to_string(block) + ".";
    const std::vector<int64_t> last = SizesIn(shapes, theirs + "projection.project_conv.weight");
    if (last.empty()) break;
    of_stage = last[0] == channels ? of_stage + 1 : 0;
    if (of_stage == 0) ++stage;
    channels = last[0];
    places[theirs] = "features." + std::to_string(stage) + "." + std::to_string(of_stage) + ".";
  }
  for (auto& [name, tensor] : weights) {
    const auto place = places.find(name.substr(0, name.find('.', kBlocks.size()) + 1));
    if (place != places.end()) name.replace(0, place->first.size(), place->second);
  }
  return weights;
}

std::vector<NamePair> TimmsNames(bool is_second) {
  const std::span<const NamePair> own = is_second ? std::span<const NamePair>(kTimmsSecondVersion) : kTimmsFirstVersion;
  std::vector<NamePair> table(own.begin(), own.end());
  table.insert(table.end(), kTimmsEfficientNet.begin(), kTimmsEfficientNet.end());
  return table;
}

std::string HeadBehind(int64_t stages) { return "features." + std::to_string(stages) + "."; }

// Family::naming_of.
std::string NamingOfEfficientNet(const WeightShapes& weights) {
  if (ContainsWithin(weights, kEfficientNetPrefix, "embeddings.convolution.weight")) return "hf";
  return AnyBegins(weights, "conv_stem.") ? "timm" : AnyBegins(weights, "features.") ? "torchvision" : "";
}

// Family::own_names.
NamedWeights OwnNamesOfEfficientNet(const NamedWeights& weights, const Model& model, std::vector<std::string>*) {
  const WeightShapes shapes = ShapesOf(weights);
  const std::string naming = NamingOfEfficientNet(shapes);
  if (naming == "hf") {
    return WithOurNames(WithCountedStages(WithoutPrefixes(weights, kEfficientNetPrefix)), kHuggingFaceEfficientNet);
  }
  if (naming != "timm") return weights;
  NamedWeights own = WithOurNames(weights, TimmsNames(shapes.contains("blocks.0.0.conv.weight")));
  for (auto& [name, tensor] : own) {
    ReplaceStart(name, kCountedHead, HeadBehind(CountBlocks(shapes, "blocks.") + 1));
  }
  MoveEpsilon(own, model.timm_norm_epsilon - model.norm_epsilon);
  return own;
}

// Family::names_of.
NamedWeights NamesOfEfficientNet(const NamedWeights& weights, const Model&, std::string_view naming) {
  if (naming == "hf") return {};
  if (naming != "timm") return weights;
  const WeightShapes shapes = ShapesOf(weights);
  NamedWeights theirs = weights;
  for (auto& [name, tensor] : theirs) {
    ReplaceStart(name, HeadBehind(CountBlocks(shapes, "features.") - 1), kCountedHead);
  }
  // The first block of V2 filters all channels together.
  const std::vector<int64_t> first = SizesIn(shapes, "features.1.0.block.0.0.weight");
  return WithTheirNames(theirs, TimmsNames(first.size() == 4 && first[1] > 1), Unknown::kKept);
}

// Family::trained_as. Hugging Face's are the authors' models.
std::string TrainedAs(const WeightShapes& weights, std::string_view file_name) {
  const bool is_tensorflows =
      NamingOfEfficientNet(weights) == "hf" || file_name.find(kTensorflows) != std::string_view::npos;
  return std::string(is_tensorflows ? kTensorflows : "");
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

Model EfficientNetMember(const std::string& name, const std::string& description, const EfficientNetOptions& options,
                         int64_t image_size) {
  const auto fits = [options](const WeightShapes& weights) {
    const Stages& stages = options.stages;
    std::vector<int64_t> blocks;
    for (const EfficientNetStage& stage : stages) blocks.push_back(stage.blocks);
    const std::vector<int64_t> head = {options.head_channels, stages.back().out_channels, 1, 1};
    return SizesIn(weights, "features." + std::to_string(stages.size() + 1) + ".0.weight") == head &&
           HaveBlocks(weights, {"features.", 1, "."}, blocks);
  };
  return {.name = name,
          .description = description + (options.pads_as_tensorflow ? ", padded as in TensorFlow" : ""),
          .image_size = image_size,
          .norm_epsilon = options.norm.epsilon,
          .timm_norm_epsilon = options.pads_as_tensorflow ? options.norm.epsilon : 1e-5,
          .make = [options](const ImageModelOptions& given) { return MakeEfficientNet(options, given); },
          .fits = fits};
}

// Convolution, BatchNorm and an optional SiLU.
class ConvNormImpl : public torch::nn::Module {
 public:
  ConvNormImpl(const Conv2dOptions& conv, const BatchNormOptions& norm, Activation activation)
      : activation_(activation) {
    conv_ = register_module("0", Conv2d(conv));
    norm_ = register_module("1", BatchNorm2d(conv.out_channels, norm));
  }

  ResidualPair forward(const at::Tensor& x_NCHW) { return norm_->Activated(conv_(x_NCHW), activation_); }

  // As BatchNorm2dImpl's, of the convolution's result. Add is for no activation, SqueezeExcite for SiLU.
  ResidualPair Add(const at::Tensor& x_NCHW, const at::Tensor& shortcut_NCHW, const at::Tensor& factors_N111) {
    return norm_->Add(conv_(x_NCHW), shortcut_NCHW, factors_N111);
  }
  at::Tensor SqueezeExcite(const at::Tensor& x_NCHW, const Excitation& excitation) {
    return norm_->SqueezeExcite(conv_(x_NCHW), excitation);
  }

 private:
  Conv2d conv_{nullptr};
  BatchNorm2d norm_{nullptr};
  Activation activation_;
};
TORCH_MODULE(ConvNorm);

// Squeeze-and-excitation scales each channel by a factor computed from the means of all channels (Hu et al. 2017,
// arXiv:1709.01507). This is the network that computes the factors, which have the shape of the means.
class SqueezeExcitationImpl : public torch::nn::Module {
 public:
  SqueezeExcitationImpl(int64_t channels, int64_t squeezed_channels) {
    fc1_ = register_module("fc1", Conv2d(Conv2dOptions{channels, squeezed_channels, 1, 1, 1, /*bias=*/true}));
    fc2_ = register_module("fc2", Conv2d(Conv2dOptions{squeezed_channels, channels, 1, 1, 1, /*bias=*/true}));
  }
  at::Tensor forward(const at::Tensor& means) { return fc2_(Silu(fc1_(means))).sigmoid(); }

 private:
  Conv2d fc1_{nullptr}, fc2_{nullptr};
};
TORCH_MODULE(SqueezeExcitation);

// Mobile inverted bottleneck: expands the channels, filters each one, weighs them, and projects; with a shortcut if the
// shapes allow it.
class MbConvImpl : public torch::nn::Module {
 public:
  // `drop_path` is the probability that a training sample skips the block, which is one of the stage.
  MbConvImpl(const EfficientNetStage& stage, const EfficientNetOptions& options, double drop_path)
      : has_shortcut_(stage.stride == 1 && stage.in_channels == stage.out_channels), drop_path_(drop_path) {
    const int64_t expanded = Channels(stage.in_channels * stage.expansion, 1);
    torch::nn::ModuleList block;
    const auto add = [&](ConvNorm& part, const Conv2dOptions& conv, Activation activation) {
      part = ConvNorm(conv, options.norm, activation);
      block->push_back(part);
    };
    const Conv2dOptions filter = {.in_channels = stage.fused ? stage.in_channels : expanded,
                                  .out_channels = expanded,
                                  .kernel_size = stage.kernel_size,
                                  .stride = stage.stride,
                                  .groups = stage.fused ? 1 : expanded,
                                  .pads_as_tensorflow = options.pads_as_tensorflow};
    if (stage.fused) {
      add(expand_, filter, Activation::kSilu);
    } else {
      if (expanded != stage.in_channels) add(expand_, {stage.in_channels, expanded, 1}, Activation::kSilu);
      add(filter_, filter, Activation::kSilu);
      weigh_ = SqueezeExcitation(expanded, std::max<int64_t>(1, stage.in_channels / kSqueeze));
      block->push_back(weigh_);
    }
    if (!stage.fused || stage.expansion != 1) add(project_, {expanded, stage.out_channels, 1}, Activation::kNone);
    register_module("block", block);
  }

  ResidualPair forward(const ResidualPair& x_NCHW) {
    at::Tensor y = expand_ ? expand_(x_NCHW.main).main : x_NCHW.main;
    if (filter_) y = filter_->SqueezeExcite(y, [this](const at::Tensor& means) { return weigh_(means); });
    if (!has_shortcut_) return project_ ? project_(y) : ResidualPair{y, y};
    at::Tensor factors_N111;
    if (is_training() && drop_path_ > 0 && !y.is_meta()) factors_N111 = DropSamples(y, drop_path_);
    if (project_) return project_->Add(y, x_NCHW.shortcut, factors_N111);
    if (factors_N111.defined()) y = y * factors_N111;
    if (!y.is_meta()) y = y + x_NCHW.shortcut;
    return {y, y};
  }

 private:
  bool has_shortcut_;
  double drop_path_;
  // expand_ is null without expansion; if fused, there is no filter_, and without expansion no project_.
  ConvNorm expand_{nullptr}, filter_{nullptr}, project_{nullptr};
  SqueezeExcitation weigh_{nullptr};
};
TORCH_MODULE(MbConv);

class EfficientNet : public ImageModel {
 public:
  EfficientNet(const EfficientNetOptions& options, const ImageModelOptions& given)
      : dropout_(given.dropout.value_or(options.dropout)) {
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
    for (EfficientNetStage stage : options.stages) {
      torch::nn::ModuleList blocks;
      for (int64_t i = 0; i < stage.blocks; ++i) {
        const double depth = static_cast<double>(blocks_.size()) / static_cast<double>(total_blocks);
        stage.in_channels = channels;
        blocks_.emplace_back(stage, options, given.drop_path.value_or(kDropPath) * depth);
        blocks->push_back(blocks_.back());
        channels = stage.out_channels;
        stage.stride = 1;
      }
      features->push_back(blocks);
    }
    head_ = ConvNorm(Conv2dOptions{channels, options.head_channels, 1}, options.norm, silu);
    features->push_back(head_);
    register_module("features", features);

    classifier_ = Linear(options.head_channels, given.num_classes, InitialWeights::kNotYet);
    register_module("classifier", Group({{"1", classifier_.ptr()}}));  // module 0 is the dropout, which has no weights
    Initialize(options.pads_as_tensorflow);
  }

  at::Tensor Features(const at::Tensor& images_NCHW) override {
    ResidualPair y = stem_(images_NCHW);
    for (MbConv& block : blocks_) y = block(y);
    return PixelMeans(head_(y.main).main);
  }
  at::Tensor Classify(const at::Tensor& features_NC) override {
    return classifier_(at::dropout(features_NC, dropout_, is_training() && !features_NC.is_meta()));
  }

 private:
  // As in torchvision: convolutions are normal with variance 2 / fan-out, the classifier is uniform in ±1/√classes,
  // biases are 0. As in timm and TensorFlow, a group's fan-out is its own.
  void Initialize(bool as_tensorflow) {
    ForEach<Conv2dImpl>(*this, [as_tensorflow](Conv2dImpl& conv) {
      torch::nn::init::kaiming_normal_(conv.weight, 0, torch::kFanOut);
      if (as_tensorflow) conv.weight.detach().mul_(std::sqrt(static_cast<double>(conv.options.groups)));
      if (conv.bias.defined()) torch::nn::init::zeros_(conv.bias);
    });
    const double bound = 1 / std::sqrt(static_cast<double>(classifier_->weight.size(0)));
    torch::nn::init::uniform_(classifier_->weight, -bound, bound);
  }

  double dropout_;
  ConvNorm stem_{nullptr}, head_{nullptr};
  std::vector<MbConv> blocks_;
  Linear classifier_{nullptr};
};

}  // namespace

std::shared_ptr<ImageModel> MakeEfficientNet(const EfficientNetOptions& options, const ImageModelOptions& given) {
  return std::make_shared<EfficientNet>(options, given);
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
                   .config_fields = kEfficientNetFields,
                   .naming_of = NamingOfEfficientNet,
                   .own_names = OwnNamesOfEfficientNet,
                   .names_of = NamesOfEfficientNet,
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
      Model model = EfficientNetMember(prefix + "_b" + std::to_string(i), description, options, row.image_size);
      if (pads) {
        // The first convolution is padded for even sizes.
        model.pads_as_hugging_face = [stages = options.stages, native = row.image_size](int64_t side) {
          return side % 2 == 0 && OddBlocks(stages, side) == OddBlocks(stages, native);
        };
        model.config_fields = EfficientNetFieldsOf(options, row.width, row.depth, row.image_size);
      }
      family.models.push_back(model);
    }
    for (const auto& row : second) {
      if (!pads && !row.is_torchvisions) continue;
      const EfficientNetOptions options = {
          .stages = row.stages, .dropout = row.dropout, .norm = kLarger, .pads_as_tensorflow = pads};
      std::string size = row.name;
      std::ranges::transform(size, size.begin(), [](unsigned char c) { return std::toupper(c); });
      family.models.push_back(
          EfficientNetMember(prefix + "v2_" + row.name, "EfficientNetV2-" + size, options, row.image_size));
    }
  }
  return family;
}

}  // namespace dtrain::models
