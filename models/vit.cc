// Vision transformers: ViT (Dosovitskiy et al. 2020, arXiv:2010.11929), DeiT and DeiT III (Touvron et al. 2020 and
// 2022, arXiv:2012.12877 and 2204.07118), DINOv2 (Oquab et al. 2023, arXiv:2304.07193). Names, logits and the
// distribution of initial weights are timm's, but for the distilled head, which is `head.dist` here, beside the other
// one. All members are one network; a table of sizes and traits makes the published ones.
#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "models/family.h"
#include "models/forward_cost.h"
#include "models/image_networks.h"
#include "models/sequences.h"

namespace dtrain::models {
namespace {

constexpr double kTransformerEpsilon = 1e-6;

constexpr char kTransformerFields[] = R"({
  "model_type": ["vit", "deit", "dinov2", "dinov2_with_registers"], "num_channels": [3], "qkv_bias": [true], "hidden_act": ["gelu"],
  "layer_norm_eps": null,
  "image_size": null, "hidden_dropout_prob": null, "attention_probs_dropout_prob": null, "initializer_range": null,
  "encoder_stride": null, "pooler_output_size": null, "pooler_act": null,
  "apply_layernorm": [true], "layerscale_value": null, "drop_path_rate": null, "use_mask_token": null,
  "interpolate_antialias": [null, true], "interpolate_offset": [null, 0],
  "reshape_hidden_states": null, "stage_names": null, "out_features": null, "out_indices": null
})";

// But for the first row, names of the authors of DeiT III and DINOv2.
constexpr auto kTimm = std::to_array<NamePair>({
    {"head.dist.", "head_dist."},
    {"blocks.#.ls#.gamma", "blocks.#.gamma_#"},
    {"reg_token", "register_tokens"},
    {"blocks.#.mlp.fc1.", "blocks.#.mlp.w12."},
    {"blocks.#.mlp.fc2.", "blocks.#.mlp.w3."},
});

constexpr auto kTorchvision = std::to_array<NamePair>({
    {"cls_token", "class_token"},
    {"pos_embed", "encoder.pos_embedding"},
    {"patch_embed.proj.", "conv_proj."},
    {"blocks.#.norm1.", "encoder.layers.encoder_layer_#.ln_1."},
    {"blocks.#.attn.qkv.", "encoder.layers.encoder_layer_#.self_attention.in_proj_"},
    {"blocks.#.attn.proj.", "encoder.layers.encoder_layer_#.self_attention.out_proj."},
    {"blocks.#.norm2.", "encoder.layers.encoder_layer_#.ln_2."},
    {"blocks.#.mlp.fc1.", "encoder.layers.encoder_layer_#.mlp.0."},
    {"blocks.#.mlp.fc2.", "encoder.layers.encoder_layer_#.mlp.3."},
    {"norm.", "encoder.ln."},
    {"head.", "heads.head."},
    // As older files have them.
    {"blocks.#.mlp.fc1.", "encoder.layers.encoder_layer_#.mlp.linear_1."},
    {"blocks.#.mlp.fc2.", "encoder.layers.encoder_layer_#.mlp.linear_2."},
});

// Hugging Face's, behind the prefix of their model: ViT's and DeiT's, and what DINOv2's have else.
constexpr auto kHuggingFace = std::to_array<NamePair>({
    {"cls_token", "embeddings.cls_token"},
    {"dist_token", "embeddings.distillation_token"},
    {"pos_embed", "embeddings.position_embeddings"},
    {"patch_embed.proj.", "embeddings.patch_embeddings.projection."},
    {"blocks.#.norm1.", "encoder.layer.#.layernorm_before."},
    {"blocks.#.attn.query.", "encoder.layer.#.attention.attention.query."},
    {"blocks.#.attn.key.", "encoder.layer.#.attention.attention.key."},
    {"blocks.#.attn.value.", "encoder.layer.#.attention.attention.value."},
    {"blocks.#.attn.proj.", "encoder.layer.#.attention.output.dense."},
    {"blocks.#.norm2.", "encoder.layer.#.layernorm_after."},
    {"blocks.#.mlp.fc1.", "encoder.layer.#.intermediate.dense."},
    {"blocks.#.mlp.fc2.", "encoder.layer.#.output.dense."},
    {"norm.", "layernorm."},
    {"head.dist.", "distillation_classifier."},
    {"head.", "cls_classifier."},
    {"reg_token", "embeddings.register_tokens"},
    {"blocks.#.norm1.", "encoder.layer.#.norm1."},
    {"blocks.#.norm2.", "encoder.layer.#.norm2."},
    {"blocks.#.ls#.gamma", "encoder.layer.#.layer_scale#.lambda1"},
    {"blocks.#.mlp.fc1.", "encoder.layer.#.mlp.fc1."},
    {"blocks.#.mlp.fc2.", "encoder.layer.#.mlp.fc2."},
    {"blocks.#.mlp.fc1.", "encoder.layer.#.mlp.weights_in."},
    {"blocks.#.mlp.fc2.", "encoder.layer.#.mlp.weights_out."},
    // As the modules of transformers 5 have them, and save_pretrained does not.
    {"blocks.#.attn.query.", "encoder.layer.#.attention.q_proj."},
    {"blocks.#.attn.key.", "encoder.layer.#.attention.k_proj."},
    {"blocks.#.attn.value.", "encoder.layer.#.attention.v_proj."},
    {"blocks.#.attn.proj.", "encoder.layer.#.attention.o_proj."},
    {"blocks.#.mlp.fc2.", "encoder.layer.#.mlp.down_proj."},
});
constexpr std::string_view kOnlyHead = "classifier.", kFirstOfTwo = "cls_classifier.";
constexpr auto kModelPrefixes = std::to_array<std::string_view>({"vit.", "deit.", "dinov2.", "dinov2_with_registers."});
constexpr auto kThree = std::to_array<std::string_view>({"query.", "key.", "value."});
constexpr auto kGateAndUp = std::to_array<std::string_view>({"gate_proj.", "up_proj."});
constexpr std::string_view kTogether = "qkv.", kMaskToken = "mask_token", kPooler = "pooler.";

NamedWeights FromHuggingFaces(const NamedWeights& weights) {
  NamedWeights own = WithoutPrefixes(weights, kModelPrefixes);
  for (auto& [name, tensor] : own) {
    ReplaceStart(name, kOnlyHead, kFirstOfTwo);
    ReplaceStart(name, "layers.", "encoder.layer.");
  }
  return WithJoined(WithOurNames(WithJoined(own, kGateAndUp, "weights_in."), kHuggingFace), kThree, kTogether);
}

NamedWeights ToHuggingFaces(const NamedWeights& weights) {
  const WeightShapes shapes = ShapesOf(weights);
  const bool is_distilled = shapes.contains("dist_token");
  if (!shapes.contains("cls_token") || shapes.contains("blocks.0.ls1.gamma")) return {};
  NamedWeights renamed = WithTheirNames(WithSplit(weights, kTogether, kThree), kHuggingFace);
  for (auto& [name, tensor] : renamed) {
    if (!is_distilled) ReplaceStart(name, kFirstOfTwo, kOnlyHead);
  }
  return WithPrefix(std::move(renamed), kModelPrefixes[is_distilled ? 1 : 0], kOnlyHead);
}

// Family::naming_of.
std::string NamingOfTransformer(const WeightShapes& weights) {
  if (ContainsWithin(weights, kModelPrefixes, "embeddings.patch_embeddings.projection.weight")) return "hf";
  if (weights.contains("encoder.pos_embedding")) return "torchvision";
  return weights.contains("patch_embed.proj.weight") ? "timm" : "";
}

// Returns the number of the first positions that are no patch's, as the others are those of a square.
int64_t PositionsOfTokens(int64_t positions) {
  for (int64_t others = 0; others <= 2; ++others) {
    const auto side = std::llround(std::sqrt(static_cast<double>(positions - others)));
    if (side > 0 && side * side == positions - others) return others;
  }
  return -1;
}

// Positions of another grid become those of the model's, as when timm reads weights.
at::Tensor ForGrid(const at::Tensor& positions_1LC, int64_t grid, std::vector<std::string>* left_out) {
  const int64_t others = positions_1LC.dim() == 3 ? PositionsOfTokens(positions_1LC.size(1)) : -1;
  if (others < 0 || positions_1LC.size(1) - others == grid * grid) return positions_1LC;
  const at::Tensor patches = positions_1LC.slice(1, others);
  if (left_out != nullptr) {
    left_out->push_back(std::to_string(patches.size(1)) + " positions of patches become " + std::to_string(grid) + "×" +
                        std::to_string(grid) +
                        ", those of --model: for images of the weights' own size, logits differ from those of the "
                        "program that made them");
  }
  return at::cat({positions_1LC.slice(1, 0, others), ResizedPositions(patches.to(at::kFloat), grid, grid)}, 1);
}

// Leaves out what only other tasks use, and adds the position of the class token to it where there are registers, which
// have no positions.
NamedWeights AsClassifier(const NamedWeights& weights, std::vector<std::string>* left_out) {
  const at::Tensor positions = Find(weights, "pos_embed"), token = Find(weights, "cls_token");
  const bool adds = Find(weights, "reg_token").defined() && positions.defined() && token.defined() &&
                    positions.dim() == 3 && PositionsOfTokens(positions.size(1)) == 1;
  NamedWeights kept = weights;
  LeaveOut(
      kept, [](const std::string& name) { return name.starts_with(kPooler) || name.ends_with(kMaskToken); }, left_out);
  for (auto& [name, tensor] : kept) {
    if (adds && name == "cls_token") tensor = tensor + positions.slice(1, 0, 1);
    if (adds && name == "pos_embed") tensor = tensor.slice(1, 1);
  }
  return kept;
}

// Family::own_names.
NamedWeights OwnNamesOfTransformer(const NamedWeights& weights, const Model& model,
                                   std::vector<std::string>* left_out) {
  const std::string naming = NamingOfTransformer(ShapesOf(weights));
  if (naming.empty()) return weights;
  NamedWeights own = AsClassifier(naming == "hf"            ? FromHuggingFaces(weights)
                                  : naming == "torchvision" ? WithOurNames(weights, kTorchvision)
                                                            : WithOurNames(weights, kTimm),
                                  left_out);
  for (auto& [name, tensor] : own) {
    if (name == "pos_embed") tensor = ForGrid(tensor, model.image_size / model.size_multiple, left_out);
  }
  return own;
}

// Family::names_of.
NamedWeights NamesOfTransformer(const NamedWeights& weights, const Model&, std::string_view naming) {
  if (naming == "hf") return ToHuggingFaces(weights);
  if (naming == "torchvision") return WithTheirNames(weights, kTorchvision);
  NamedWeights renamed = weights;
  for (auto& [name, tensor] : renamed) ReplaceStart(name, "head.dist.", "head_dist.");
  return renamed;
}

// Family::layer_of, as timm's group_matcher.
int64_t LayerOfTransformer(std::string_view parameter) {
  constexpr std::string_view kBlocks = "blocks.";
  if (parameter.starts_with(kBlocks)) return 1 + std::stoll(std::string(parameter.substr(kBlocks.size())));
  if (parameter.starts_with("norm.")) return kTopLayer;
  for (const char* first : {"cls_token", "dist_token", "pos_embed", "patch_embed."}) {
    if (parameter.starts_with(first)) return 0;
  }
  return kWithHead;
}

// Model::fits, for any grid and number of classes.
bool FitsTransformer(const VisionTransformerOptions& own, const WeightShapes& weights) {
  using Sizes = std::vector<int64_t>;
  const auto has = [&weights](const std::string& name) { return weights.contains(name); };
  const Sizes positions = SizesIn(weights, "pos_embed"), registers = SizesIn(weights, "reg_token");
  return SizesIn(weights, "patch_embed.proj.weight") == Sizes{own.width, 3, own.patch, own.patch} &&
         SizesIn(weights, "blocks.0.mlp.fc1.weight") == Sizes{own.hidden, own.width} && positions.size() == 3 &&
         PositionsOfTokens(positions[1]) == (own.positions_of_tokens ? own.prefix() : 0) &&
         (registers.size() == 3 ? registers[1] : 0) == own.registers && has("cls_token") != own.averages &&
         has("dist_token") == own.distilled && has("blocks.0.attn.qkv.bias") == own.qkv_bias &&
         has("blocks.0.ls1.gamma") == (own.layer_scale > 0) && CountBlocks(weights, "blocks.") == own.layers;
}

std::string TransformerFieldsOf(const VisionTransformerOptions& options) {
  const char* type = options.registers > 0     ? "dinov2_with_registers"
                     : options.layer_scale > 0 ? "dinov2"
                     : options.distilled       ? "deit"
                                               : "vit";
  auto fields = nlohmann::json::parse(FieldsWith({{"hidden_size", options.width},
                                                  {"num_hidden_layers", options.layers},
                                                  {"num_attention_heads", options.heads},
                                                  {"intermediate_size", options.hidden},
                                                  {"patch_size", options.patch},
                                                  {"model_type", type},
                                                  {"mlp_ratio", 4},
                                                  {"use_swiglu_ffn", options.gated},
                                                  {"num_register_tokens", options.registers}}));
  // Another class has the token as well, but no classifier on it.
  if (options.distilled)
    fields["architectures"] = {
        {"DeiTForImageClassificationWithTeacher"}, {"DeiTModel"}, {"DeiTForMaskedImageModeling"}};
  return fields.dump();
}

Model TransformerMember(const std::string& name, const VisionTransformerOptions& options) {
  return {
      .name = name,
      .description = "Vision transformer of " + std::to_string(options.layers) + " layers, " +
                     std::to_string(options.width) + " wide, with patches of " + std::to_string(options.patch) +
                     " pixels",
      .image_size = options.grid * options.patch,
      .size_multiple = options.patch,
      .norm_epsilon = kTransformerEpsilon,
      .timm_norm_epsilon = kTransformerEpsilon,
      .timm_pool = options.averages ? "avg" : "token",
      .config_fields = TransformerFieldsOf(options),
      .hugging_face_class = options.distilled ? "DeiTForImageClassificationWithTeacher" : "ViTForImageClassification",
      .make = [options](const ImageModelOptions& given) { return MakeVisionTransformer(options, given); },
      .fits = [options](const WeightShapes& weights) { return FitsTransformer(options, weights); }};
}

// Attention of all tokens to all, with query, key and value as one product, and without the product that follows it. x
// and the result are N×L×C.
class SelfAttentionImpl : public torch::nn::Module {
 public:
  SelfAttentionImpl(int64_t features, int64_t heads, bool qkv_bias) : heads_(heads) {
    qkv_ = register_module("qkv", Linear(features, 3 * features, InitialWeights::kNotYet, qkv_bias));
    output = register_module("proj", Linear(features, features, InitialWeights::kNotYet));
  }

  at::Tensor forward(const at::Tensor& x_NLC) {
    const int64_t length = x_NLC.size(1), features = x_NLC.size(2);
    if (x_NLC.is_meta()) {
      qkv_(x_NLC);
      CountForward({.multiply_adds = 2 * length * x_NLC.numel(), .activation_elements = 4 * x_NLC.numel()});
      return x_NLC;
    }
    const auto [q_SC, k_SC, v_SC] = Products(x_NLC);
    Sequences sequences;
    sequences.padded_length = length;
    return Attend(q_SC, k_SC, v_SC, heads_, sequences, /*dropout=*/0).view({-1, length, features});
  }

  Linear output{nullptr};

 private:
  std::array<at::Tensor, 3> Products(const at::Tensor& x_NLC) {
    const int64_t features = x_NLC.size(2);
    const TextKernels* const kernels = qkv_->KernelsFor(x_NLC);
    if (kernels != nullptr && qkv_->bias.defined()) {
      const auto biases = qkv_->bias.split(features);
      return FusedQkv(*kernels, x_NLC.flatten(0, 1).to(GemmType(x_NLC)), qkv_->GemmWeight(),
                      {biases[0], biases[1], biases[2]});
    }
    const auto parts = qkv_(x_NLC).view({-1, 3 * features}).split(features, 1);
    return {parts[0], parts[1], parts[2]};
  }

  int64_t heads_;
  Linear qkv_{nullptr};
};
TORCH_MODULE(SelfAttention);

// x + attention(norm(x)), then x + mlp(norm(x)), each scaled and left out for some samples. N×L×C.
class TransformerLayerImpl : public torch::nn::Module {
 public:
  TransformerLayerImpl(const VisionTransformerOptions& options, double drop_path)
      : gated_(options.gated), drop_path_(drop_path) {
    const int64_t width = options.width;
    norm1_ = register_module("norm1", LayerNorm(width, kTransformerEpsilon));
    attention_ = register_module("attn", SelfAttention(width, options.heads, options.qkv_bias));
    const auto scale = [&](const char* name) {  // LayerScale
      if (options.layer_scale == 0) return at::Tensor();
      const auto group = register_module(name, Group({}));
      return group->register_parameter("gamma", at::full(width, options.layer_scale, DeviceOfNewWeights()));
    };
    scale1_ = scale("ls1");
    norm2_ = register_module("norm2", LayerNorm(width, kTransformerEpsilon));
    fc1_ = Linear(width, options.hidden, InitialWeights::kNotYet);
    fc2_ = Linear(gated_ ? options.hidden / 2 : options.hidden, width, InitialWeights::kNotYet);
    register_module("mlp", Group({{"fc1", fc1_.ptr()}, {"fc2", fc2_.ptr()}}));
    scale2_ = scale("ls2");
  }

  // As timm draws them: the half that gates begins nearly open.
  void DrawGate() {
    const int64_t half = fc2_->weight.size(1);
    fc1_->weight.slice(0, half).normal_(0, 1e-6);
    fc1_->bias.slice(0, half).fill_(1);
  }

  // Takes the residual stream as the shortcut and its norm by first_norm() as the main one, and returns the stream with
  // its norm by `next`, or, if that is null, the stream alone.
  ResidualPair forward(const ResidualPair& x_NLC, LayerNormImpl* next) {
    const ResidualPair y_NLC = attention_->output->AddedTo(x_NLC.shortcut, attention_(x_NLC.main),
                                                           {scale1_, drop_path_, kSamples, norm2_.get()});
    const at::Tensor inner = fc1_->ThroughUnit(y_NLC.main, gated_ ? LinearUnit::kGatedSilu : LinearUnit::kGelu);
    return fc2_->AddedTo(y_NLC.shortcut, inner, {scale2_, drop_path_, kSamples, next});
  }
  LayerNormImpl& first_norm() { return *norm1_; }

 private:
  static constexpr bool kSamples = true;  // stochastic depth leaves whole samples out

  bool gated_;
  double drop_path_;
  LayerNorm norm1_{nullptr}, norm2_{nullptr};
  SelfAttention attention_{nullptr};
  at::Tensor scale1_, scale2_;  // undefined where there is none
  Linear fc1_{nullptr}, fc2_{nullptr};
};
TORCH_MODULE(TransformerLayer);

class VisionTransformer : public ImageModel {
 public:
  VisionTransformer(const VisionTransformerOptions& options, const ImageModelOptions& given)
      : options_(options), dropout_(given.dropout.value_or(0)) {
    const int64_t width = options.width;
    const auto tokens = [&](const char* name, int64_t count) {
      return register_parameter(name, at::empty({1, count, width}, DeviceOfNewWeights()));
    };
    if (!options.averages) cls_token_ = tokens("cls_token", 1);
    if (options.registers > 0) reg_token_ = tokens("reg_token", options.registers);
    pos_embed_ = tokens("pos_embed", options.positions());
    if (options.distilled) dist_token_ = tokens("dist_token", 1);
    patches_ = Conv2d(Conv2dOptions{.in_channels = 3,
                                    .out_channels = width,
                                    .kernel_size = options.patch,
                                    .stride = options.patch,
                                    .bias = true,
                                    .padding = 0});
    register_module("patch_embed", Group({{"proj", patches_.ptr()}}));
    torch::nn::ModuleList blocks;
    for (int64_t i = 0; i < options.layers; ++i) {
      // Stochastic depth, from 0 in the first layer to this in the last.
      layers_.emplace_back(
          options, given.drop_path.value_or(0) * static_cast<double>(i) / static_cast<double>(options.layers - 1));
      blocks->push_back(layers_.back());
    }
    register_module("blocks", blocks);
    norm_ = register_module("norm", LayerNorm(width, kTransformerEpsilon));
    head_ = register_module("head", Linear(width, given.num_classes, InitialWeights::kNotYet));
    if (options.distilled) {
      dist_head_ = head_->register_module("dist", Linear(width, given.num_classes, InitialWeights::kNotYet));
    }
    Initialize();
  }

  at::Tensor Features(const at::Tensor& images_NCHW) override {
    const at::Tensor tokens_NLC = Tokens(images_NCHW);
    ResidualPair x_NLC = {layers_.front()->first_norm().forward(tokens_NLC), tokens_NLC};
    for (size_t i = 0; i < layers_.size(); ++i) {
      LayerNormImpl* const last = options_.averages ? norm_.get() : nullptr;  // else of some tokens alone
      x_NLC = layers_[i](x_NLC, i + 1 < layers_.size() ? &layers_[i + 1]->first_norm() : last);
    }
    if (options_.averages) return x_NLC.main.mean(1);
    return norm_(x_NLC.main.slice(1, 0, options_.distilled ? 2 : 1)).flatten(1);
  }

  std::vector<at::Tensor> ClassifyEach(const at::Tensor& features_NC) override {
    if (options_.distilled) {  // without dropout, as in timm
      const std::vector<at::Tensor> halves = features_NC.chunk(2, 1);
      return {head_(halves[0]), dist_head_(halves[1])};
    }
    return {head_(at::dropout(features_NC, dropout_, is_training() && !features_NC.is_meta()))};
  }

  at::Tensor Classify(const at::Tensor& features_NC) override {
    const std::vector<at::Tensor> logits = ClassifyEach(features_NC);
    return logits.size() == 1 ? logits[0] : (logits[0] + logits[1]) / 2;
  }

  int64_t NumFeatures() const override { return options_.width * (options_.distilled ? 2 : 1); }

 private:
  // As in timm, whose normal distribution is cut off at a hundred of its deviations. Patches begin as torch.nn's
  // layers.
  void Initialize() {
    constexpr double kDeviation = 0.02, kTokenDeviation = 1e-6;
    const at::NoGradGuard no_grad;
    ForEach<LinearImpl>(*this, [](LinearImpl& linear) { torch::nn::init::normal_(linear.weight, 0, kDeviation); });
    if (cls_token_.defined()) cls_token_.normal_(0, kTokenDeviation);
    if (reg_token_.defined()) reg_token_.normal_(0, kTokenDeviation);
    if (dist_token_.defined()) dist_token_.normal_(0, kDeviation);
    pos_embed_.normal_(0, kDeviation);
    const double bound = 1 / std::sqrt(static_cast<double>(patches_->weight[0].numel()));
    patches_->weight.uniform_(-bound, bound);
    patches_->bias.uniform_(-bound, bound);
    for (TransformerLayer& layer : layers_) {
      if (options_.gated) layer->DrawGate();
    }
  }

  // Returns the embeddings of rows × columns patches and the tokens before them, with their positions.
  at::Tensor Tokens(const at::Tensor& images_NCHW) {
    const at::Tensor patches_NCHW = patches_(images_NCHW);
    const int64_t count = patches_NCHW.size(0), rows = patches_NCHW.size(2), columns = patches_NCHW.size(3);
    if (patches_NCHW.is_meta()) {
      return at::empty({count, options_.prefix() + rows * columns, options_.width}, patches_NCHW.options());
    }
    const int64_t others = options_.positions() - options_.grid * options_.grid;
    at::Tensor positions = pos_embed_.slice(1, others);
    if (rows != options_.grid || columns != options_.grid) positions = ResizedPositions(positions, rows, columns);
    std::vector<at::Tensor> prefix;
    for (const at::Tensor& token : {cls_token_, dist_token_, reg_token_}) {
      if (token.defined()) prefix.push_back(token);
    }
    const at::Tensor patches = patches_NCHW.flatten(2).transpose(1, 2) + positions;
    if (prefix.empty()) return patches;
    at::Tensor first = at::cat(prefix, 1);
    if (others > 0) first = first + pos_embed_.slice(1, 0, others);
    return at::cat({first.expand({count, -1, -1}), patches}, 1);
  }

  const VisionTransformerOptions options_;
  double dropout_;  // before the classifier
  at::Tensor cls_token_, dist_token_, reg_token_, pos_embed_;
  Conv2d patches_{nullptr};
  std::vector<TransformerLayer> layers_;
  LayerNorm norm_{nullptr};
  Linear head_{nullptr}, dist_head_{nullptr};
};

}  // namespace

std::shared_ptr<ImageModel> MakeVisionTransformer(const VisionTransformerOptions& options,
                                                  const ImageModelOptions& given) {
  return std::make_shared<VisionTransformer>(options, given);
}

at::Tensor ResizedPositions(const at::Tensor& positions_1LC, int64_t rows, int64_t columns) {
  const c10::impl::ExcludeDispatchKeyGuard in_float32(c10::autocast_dispatch_keyset);
  const auto grid = std::llround(std::sqrt(static_cast<double>(positions_1LC.size(1))));
  const auto filter = [&](int64_t size) {  // size × grid: the filter of a unit matrix's columns
    const at::NoGradGuard no_grad;
    const at::Tensor unit = at::eye(grid, positions_1LC.options()).view({1, 1, grid, grid});
    return at::_upsample_bicubic2d_aa(unit, {size, grid}, /*align_corners=*/false).view({size, grid});
  };
  const at::Tensor by_row = filter(rows).matmul(positions_1LC.reshape({grid, -1}));
  return filter(columns).matmul(by_row.view({rows, grid, -1})).reshape({1, rows * columns, -1});
}

Family VisionTransformerFamily() {
  using Options = VisionTransformerOptions;
  struct Size {
    const char* name;
    int64_t width, layers, heads, hidden;
  };
  constexpr Size kTiny = {"tiny", 192, 12, 3, 768}, kSmall = {"small", 384, 12, 6, 1536},
                 kMedium = {"medium", 512, 12, 8, 2048}, kBase = {"base", 768, 12, 12, 3072},
                 kLarge = {"large", 1024, 24, 16, 4096}, kHuge = {"huge", 1280, 32, 16, 5120},
                 kGiant = {"giant", 1536, 40, 24, 8192};
  constexpr Options kPlain = {}, kAverage = {.averages = true, .qkv_bias = false, .layer_scale = 1e-6},
                    kDistilled = {.distilled = true}, kThird = {.positions_of_tokens = false, .layer_scale = 1e-6},
                    kDino = {.layer_scale = 1e-5}, kGatedDino = {.gated = true, .layer_scale = 1e-5},
                    kRegisters = {.registers = 4, .positions_of_tokens = false, .layer_scale = 1e-5},
                    kGatedRegisters = {
                        .registers = 4, .positions_of_tokens = false, .gated = true, .layer_scale = 1e-5};
  // With timm's names, at whose end is the size of images, if a _ is before it.
  const struct {
    const char *before, *behind;
    int64_t patch;
    std::vector<int64_t> image_sizes;
    Options traits;
    std::vector<Size> sizes;
  } table[] = {
      {"vit_", "_patch16_", 16, {224, 384}, kPlain, {kTiny, kSmall, kBase, kLarge}},
      {"vit_", "_patch32_", 32, {224, 384}, kPlain, {kSmall, kBase, kLarge}},
      {"vit_", "_patch14_", 14, {224}, kPlain, {kLarge, kHuge}},
      {"vit_", "_patch16_gap_", 16, {240, 256, 384}, kAverage, {kMedium}},
      {"deit_", "_patch16_", 16, {224}, kPlain, {kTiny, kSmall, kBase}},
      {"deit_", "_patch16_", 16, {384}, kPlain, {kBase}},
      {"deit_", "_distilled_patch16_", 16, {224}, kDistilled, {kTiny, kSmall, kBase}},
      {"deit_", "_distilled_patch16_", 16, {384}, kDistilled, {kBase}},
      {"deit3_", "_patch16_", 16, {224}, kThird, {kSmall, kMedium, kBase, kLarge}},
      {"deit3_", "_patch16_", 16, {384}, kThird, {kSmall, kBase, kLarge}},
      {"deit3_", "_patch14_", 14, {224}, kThird, {kHuge}},
      {"vit_", "_patch14_dinov2", 14, {518}, kDino, {kSmall, kBase, kLarge}},
      {"vit_", "_patch14_dinov2", 14, {518}, kGatedDino, {kGiant}},
      {"vit_", "_patch14_reg4_dinov2", 14, {518}, kRegisters, {kSmall, kBase, kLarge}},
      {"vit_", "_patch14_reg4_dinov2", 14, {518}, kGatedRegisters, {kGiant}},
  };
  Family family = {.name = "vision transformers",
                   .input = Input::kImages,
                   .heads = {{"head", "head.weight"}},
                   .options = {"dropout", "drop_path", "bn_eps"},
                   .models = {},
                   .config_fields = kTransformerFields,
                   .naming_of = NamingOfTransformer,
                   .own_names = OwnNamesOfTransformer,
                   .names_of = NamesOfTransformer,
                   .layer_of = LayerOfTransformer,
                   .is_never_decayed = [](std::string_view parameter) {
                     return parameter == "pos_embed" || parameter == "cls_token" || parameter == "dist_token";
                   }};
  for (const auto& row : table) {
    for (const int64_t image_size : row.image_sizes) {
      for (const Size& size : row.sizes) {
        Options options = row.traits;
        options.width = size.width;
        options.layers = size.layers;
        options.heads = size.heads;
        options.hidden = size.hidden;
        options.patch = row.patch;
        options.grid = image_size / row.patch;
        std::string name = std::string(row.before) + size.name + row.behind;
        if (name.ends_with("_")) name += std::to_string(image_size);
        family.models.push_back(TransformerMember(name, options));
      }
    }
  }
  return family;
}

}  // namespace dtrain::models
