// ModernBERT: Warner et al. 2024 (arXiv:2412.13663). Norms stand before attention and MLP, positions are rotations of
// queries and keys, and two layers of three attend within a window. Parameter names and logits are those of
// transformers' classes, except that the decoder of the head that guesses words is the word embedding. Letters in
// names: N sequences, S tokens, R chosen ones of them, H hidden features.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "models/activation_checkpoint.h"
#include "models/bert_family.h"
#include "models/cpu_operations.h"
#include "models/family.h"

namespace dtrain::models {
namespace {

constexpr char kModernClasses[] = "ModernBert";
constexpr char kModernWords[] = "model.embeddings.tok_embeddings.weight";

constexpr double kHeadDropout = 0;  // where a config.json does not say it, whatever that of the MLPs is

// The defaults are those of transformers' ModernBertConfig, which the published base model has, too.
struct ModernOptions : TextShape {
  int64_t layers = 22;
  int64_t heads = 12;
  int64_t intermediate_size = 1152;
  int64_t global_every = 3;  // every so many layers, from the first on, attend to all tokens
  int64_t window = 128;      // of the others: half of it at each side
  double global_theta = 160'000, local_theta = 10'000;
  double epsilon = 1e-5;
  double initializer_range = 0.02, initializer_cutoff = 2;
  bool takes_mean = false;  // of all tokens for a classifier of sequences, not the first one
  std::optional<int64_t> begin_id = 50'281, end_id = 50'282;  // which a config.json mentions; empty: null

  ModernOptions()
      : TextShape{.vocab_size = 50'368,
                  .padding_id = 50'283,
                  .first_position = 0,
                  .longest_sequence = 8192,
                  .token_types = 0,
                  .embedding_dropout = 0,
                  .dropout = 0,  // of the MLPs
                  .attention_dropout = 0} {}

  ModernOptions With(const TextShape& shape) const {
    ModernOptions options = *this;
    static_cast<TextShape&>(options) = shape;
    return options;
  }
};

// Draws from a normal distribution, cut off at so many standard deviations.
void DrawTruncated(at::Tensor weight, double deviation, double cutoff) {
  const at::NoGradGuard no_grad;
  const double most = std::erf(cutoff / std::sqrt(2.0));
  weight.uniform_(-most, most).erfinv_().mul_(deviation * std::sqrt(2.0));
  weight.clamp_(-cutoff * deviation, cutoff * deviation);  // where `most` is rounded to 1, some are infinite
}

// Cosine and sine of the angles by which the two halves of a head's features are turned together, S×1×d.
struct Rotation {
  at::Tensor cosine, sine;

  Rotation(const at::Tensor& positions_S, double theta, int64_t features) {
    const auto type = positions_S.options().dtype(at::kFloat);
    const at::Tensor frequencies = 1.0 / at::pow(theta, at::arange(0, features, 2, type) / features);
    const at::Tensor of_half = at::outer(positions_S.to(at::kFloat), frequencies);
    const at::Tensor angles = at::cat({of_half, of_half}, 1).unsqueeze(1);
    cosine = angles.cos();
    sine = angles.sin();
  }

  // Whether the kernels turn such heads.
  bool has_kernel() const { return cosine.size(2) % (2 * kernels::kWidth) == 0; }

  at::Tensor Turned(const at::Tensor& x_SH, int64_t heads) const {
    const at::Tensor x = x_SH.view({x_SH.size(0), heads, -1});
    const auto halves = x.chunk(2, 2);
    const at::Tensor other = at::cat({-halves[1], halves[0]}, 2);
    return (x * cosine.to(x.scalar_type()) + other * sine.to(x.scalar_type())).flatten(1);
  }
};

Linear Matrix(int64_t in, int64_t out) { return Linear(in, out, InitialWeights::kNotYet, /*has_bias=*/false); }

class ModernLayerImpl : public torch::nn::Module {
 public:
  ModernLayerImpl(const ModernOptions& options, int64_t number)
      : heads_(options.heads), attention_dropout_(options.attention_dropout), mlp_dropout_(options.dropout) {
    const int64_t hidden = options.hidden_size, inner = options.intermediate_size;
    if (number % options.global_every != 0) window_ = options.window / 2;
    if (number > 0) {
      attention_norm_ = register_module("attn_norm", LayerNorm(hidden, options.epsilon, /*has_bias=*/false));
    }
    const double out = options.initializer_range / std::sqrt(2.0 * static_cast<double>(options.layers));
    const auto add = [&](Linear& layer, const char* name, int64_t from, int64_t to, double deviation) {
      layer = Matrix(from, to);
      RegisterAt(*this, name, layer.ptr());
      DrawTruncated(layer->weight, deviation, options.initializer_cutoff);
    };
    add(three_, "attn.Wqkv", hidden, 3 * hidden, options.initializer_range);
    add(attention_output_, "attn.Wo", hidden, hidden, out);
    mlp_norm_ = register_module("mlp_norm", LayerNorm(hidden, options.epsilon, /*has_bias=*/false));
    add(inner_, "mlp.Wi", hidden, 2 * inner, options.initializer_range);
    add(output_, "mlp.Wo", inner, hidden, out);
  }

  bool is_global() const { return !window_; }

  // Returns the residual stream as the shortcut, and as the main one what the layer's first product takes of it.
  ResidualPair Begin(const at::Tensor& x_SH) { return {attention_norm_ ? attention_norm_(x_SH) : x_SH, x_SH}; }

  // Takes what Begin returns, and returns the sum and its norm by `next`. `rows` is as in BertLayerImpl.
  ResidualPair forward(const ResidualPair& x_SH, const Sequences& sequences, const Rotation& rotation,
                       const at::Tensor& rows, LayerNormImpl* next) {
    const auto [q_SH, k_SH, v_SH] = TurnedQkv(x_SH.main, rotation);
    const at::Tensor context_SH =
        Attend(q_SH, k_SH, v_SH, heads_, sequences, is_training() ? attention_dropout_ : 0.0, window_);
    const ResidualPair y_RH = attention_output_->AddedTo(RowsOf(x_SH.shortcut, rows), RowsOf(context_SH, rows),
                                                         {.dropout = attention_dropout_, .norm = mlp_norm_.get()});
    const at::Tensor gated = inner_->ThroughUnit(y_RH.main, LinearUnit::kGatedGelu);
    return output_->AddedTo(y_RH.shortcut, Dropout(gated, mlp_dropout_, is_training()), {.norm = next});
  }
  LayerNormImpl* first_norm() { return attention_norm_.get(); }

 private:
  std::array<at::Tensor, 3> TurnedQkv(const at::Tensor& x_SH, const Rotation& rotation) {
    const TextKernels* const kernels = three_->KernelsFor(x_SH);
    if (kernels != nullptr && rotation.has_kernel() && !three_->bias.defined()) {
      return RotatedQkv(*kernels, three_->Multiplied(x_SH), rotation.cosine.squeeze(1), rotation.sine.squeeze(1));
    }
    const auto qkv = three_(x_SH).chunk(3, 1);
    return {rotation.Turned(qkv[0], heads_), rotation.Turned(qkv[1], heads_), qkv[2]};
  }

  int64_t heads_;
  double attention_dropout_, mlp_dropout_;
  std::optional<int64_t> window_;
  LayerNorm attention_norm_{nullptr}, mlp_norm_{nullptr};
  Linear three_{nullptr}, attention_output_{nullptr}, inner_{nullptr}, output_{nullptr};
};
TORCH_MODULE(ModernLayer);

// With either head, guessing words or classifying sequences or tokens, or without.
class ModernBert : public TextModel, public HalfWeightUser {
 public:
  ModernBert(const ModernOptions& options, const TextHead& head)
      : TextModel(options),
        options_(options),
        of_tokens_(head.labels_of(Labelled::kTokens)),
        head_dropout_(head.dropout_with(kHeadDropout)) {
    const int64_t hidden = options.hidden_size;
    const auto norm = [&] { return LayerNorm(hidden, options.epsilon, /*has_bias=*/false); };
    words_ = Embedding(options.vocab_size, hidden, options.padding_id);
    DrawTruncated(words_->weight, options.initializer_range, options.initializer_cutoff);
    RegisterAt(*this, "model.embeddings.tok_embeddings", words_.ptr());
    RegisterAt(*this, "model.embeddings.norm", (embedding_norm_ = norm()).ptr());
    for (int64_t i = 0; i < options.layers; ++i) {
      layers_.emplace_back(options, i);
      RegisterAt(*this, "model.layers." + std::to_string(i), layers_.back().ptr());
    }
    RegisterAt(*this, "model.final_norm", (final_norm_ = norm()).ptr());
    if (head.kind == HeadKind::kNone) return;
    head_dense_ = Matrix(hidden, hidden);
    DrawTruncated(head_dense_->weight, options.initializer_range / std::sqrt(2.0 * static_cast<double>(options.layers)),
                  options.initializer_cutoff);
    RegisterAt(*this, "head.dense", head_dense_.ptr());
    RegisterAt(*this, "head.norm", (head_norm_ = norm()).ptr());
    if (head.kind == HeadKind::kWords) {
      word_bias_ =
          GroupAt(*this, "decoder").register_parameter("bias", at::zeros(options.vocab_size, DeviceOfNewWeights()));
    } else {
      classifier_ = register_module("classifier", Linear(hidden, head.outputs(), InitialWeights::kNotYet));
      DrawTruncated(classifier_->weight, 1 / std::sqrt(static_cast<double>(hidden)), options.initializer_cutoff);
    }
  }

  at::Tensor Encode(const Sequences& sequences, const at::Tensor& rows) override {
    const int64_t features = options_.hidden_size / options_.heads;
    const Rotation of_all(sequences.positions, options_.global_theta, features);
    const Rotation of_near(sequences.positions, options_.local_theta, features);
    ResidualPair x_SH = layers_.front()->Begin(
        Dropout(embedding_norm_(words_(sequences.ids)), options_.embedding_dropout, is_training()));
    const bool is_checkpointed = options_.checkpoint_activations && is_training();
    for (size_t i = 0; i < layers_.size(); ++i) {
      ModernLayer& layer = layers_[i];
      const bool is_last = i + 1 == layers_.size();
      const at::Tensor of_layer = is_last ? rows : at::Tensor();
      const Rotation& rotation = layer->is_global() ? of_all : of_near;
      if (is_checkpointed) {
        const Part run = [layer, sequences, rotation, of_layer](const at::Tensor& x) mutable {
          return layer(layer->Begin(x), sequences, rotation, of_layer, /*next=*/nullptr).shortcut;
        };
        x_SH.shortcut = Checkpointed(run, x_SH.shortcut, layer->parameters());
      } else {
        LayerNormImpl* const next = is_last ? final_norm_.get() : layers_[i + 1]->first_norm();
        x_SH = layer(x_SH, sequences, rotation, of_layer, next);
      }
    }
    return is_checkpointed ? final_norm_(x_SH.shortcut) : x_SH.main;
  }

  at::Tensor Scores(const at::Tensor& hidden_RH, int64_t columns_multiple) override {
    return WordScores(InHead(hidden_RH), words_->weight, word_bias_, columns_multiple,
                      is_training() ? &half_words_ : nullptr);
  }

  at::Tensor Pooled(const Sequences& sequences) override {
    if (of_tokens_) return Encode(sequences, {});
    return options_.takes_mean ? MeanOfTokens(Encode(sequences, {}), sequences) : EncodeFirst(sequences);
  }
  at::Tensor Classify(const at::Tensor& hidden_RH) override {
    return classifier_ ? classifier_(Dropout(InHead(hidden_RH), head_dropout_, is_training())) : hidden_RH;
  }
  int64_t outputs() const override { return classifier_ ? classifier_->weight.size(0) : 0; }

  int64_t features_in_window() const override { return options_.hidden_size / options_.heads; }

  ForwardCost Cost(int64_t tokens, int64_t length, int64_t rows) const override {
    const int64_t hidden = options_.hidden_size, inner = options_.intermediate_size, layers = options_.layers;
    const int64_t globals = (layers + options_.global_every - 1) / options_.global_every;
    const int64_t attended = globals * length + (layers - globals) * std::min(length, options_.window + 1);
    if (of_tokens_) rows = tokens;
    const int64_t last = classifier_ ? outputs() : options_.vocab_size;
    const int64_t kept = options_.checkpoint_activations ? hidden : 11 * hidden + 4 * inner;
    // In each layer two residual sums with their norms (forward they read two and write two; backward they read three
    // and write one), the gated unit, and the turning of queries and keys, which backward also joins the values'
    // gradients.
    const int64_t moved = 2 * (4 + 4) * hidden + (3 + 5) * inner + (4 + 6) * hidden;
    return {.multiply_adds = tokens * (layers * (4 * hidden * hidden + 3 * hidden * inner) + 2 * attended * hidden) +
                             rows * hidden * (hidden + last),
            .activation_elements = tokens * layers * kept + rows * (4 * hidden + 2 * last),
            .moved_elements = static_cast<double>(tokens * layers * moved)};
  }

  void UseHalfWeights(HalfWeights& copies) override { half_words_ = copies.CopyOf({words_->weight}, kColumnsMultiple); }

 private:
  at::Tensor InHead(const at::Tensor& hidden_RH) {
    return head_norm_(head_dense_->ThroughUnit(hidden_RH, LinearUnit::kGelu));
  }

  const ModernOptions options_;
  const bool of_tokens_;
  const double head_dropout_;
  Embedding words_{nullptr};
  LayerNorm embedding_norm_{nullptr}, final_norm_{nullptr}, head_norm_{nullptr};
  std::vector<ModernLayer> layers_;
  Linear head_dense_{nullptr}, classifier_{nullptr};
  at::Tensor word_bias_;
  HalfWeight half_words_;
};

constexpr int64_t kMost = 1 << 24;  // of whole numbers in a config.json

// The fields of it that are members, with the least or the most value.
constexpr std::pair<const char*, std::optional<int64_t> ModernOptions::*> kOptionalFields[] = {
    {"bos_token_id", &ModernOptions::begin_id}, {"eos_token_id", &ModernOptions::end_id}};
constexpr struct {
  const char* name;
  int64_t ModernOptions::*member;
  int64_t least;
} kWholeFields[] = {{"vocab_size", &ModernOptions::vocab_size, 5},
                    {"hidden_size", &ModernOptions::hidden_size, 2},
                    {"num_hidden_layers", &ModernOptions::layers, 1},
                    {"num_attention_heads", &ModernOptions::heads, 1},
                    {"intermediate_size", &ModernOptions::intermediate_size, 1},
                    {"max_position_embeddings", &ModernOptions::longest_sequence, 1},
                    {"global_attn_every_n_layers", &ModernOptions::global_every, 1},
                    {"local_attention", &ModernOptions::window, 2},
                    {"pad_token_id", &ModernOptions::padding_id, 0}};
constexpr struct {
  const char* name;
  double ModernOptions::*member;
  double most;
} kNumberFields[] = {{"global_rope_theta", &ModernOptions::global_theta, 1e12},
                     {"local_rope_theta", &ModernOptions::local_theta, 1e12},
                     {"norm_eps", &ModernOptions::epsilon, 1},
                     {"initializer_range", &ModernOptions::initializer_range, 10},
                     {"initializer_cutoff_factor", &ModernOptions::initializer_cutoff, 100},
                     {"embedding_dropout", &ModernOptions::embedding_dropout, 1},
                     {"mlp_dropout", &ModernOptions::dropout, 1},
                     {"attention_dropout", &ModernOptions::attention_dropout, 1}};

// Those that have one value or change nothing.
constexpr char kModernFields[] = R"({
  "model_type": ["modernbert"], "hidden_activation": ["gelu"], "classifier_activation": ["gelu"],
  "decoder_bias": [true], "is_causal": [false], "causal_mask": [false],
  "rope_scaling": [null], "rope_type": ["default"], "classifier_pooling": ["cls", "mean"],
  "norm_bias": [false], "attention_bias": [false], "mlp_bias": [false], "classifier_bias": [false],

  "layer_types": null,
  "rope_parameters": {"full_attention": {"rope_type": ["default"], "rope_theta": null},
                      "sliding_attention": {"rope_type": ["default"], "rope_theta": null}},

  "layer_norm_eps": null, "position_embedding_type": null, "deterministic_flash_attn": null, "reference_compile": null,
  "sparse_prediction": null, "sparse_pred_ignore_index": null, "repad_logits_with_grad": null,
  "gradient_checkpointing": null, "use_cache": null, "classifier_dropout": null, "problem_type": null
})";

std::string ModernConfigFields() {
  auto fields = nlohmann::json::parse(kModernFields);
  for (const auto& field : kWholeFields) fields[field.name] = nullptr;
  for (const auto& field : kNumberFields) fields[field.name] = nullptr;
  return fields.dump();
}

nlohmann::ordered_json ModernToJson(const ModernOptions& options, const TextHead& head) {
  nlohmann::ordered_json config = {{"architectures", nullptr}, {"model_type", "modernbert"}};  // AddTo knows the first
  for (const auto& field : kWholeFields) config[field.name] = options.*field.member;
  for (const auto& field : kNumberFields) config[field.name] = options.*field.member;
  for (const auto& [name, member] : kOptionalFields) {
    config[name] = nullptr;
    if (options.*member) config[name] = *(options.*member);
  }
  config["cls_token_id"] = config["bos_token_id"];
  config["sep_token_id"] = config["eos_token_id"];
  config["classifier_pooling"] = options.takes_mean ? "mean" : "cls";
  config["tie_word_embeddings"] = true;
  config["torch_dtype"] = "float32";
  AddTo(config, kModernClasses, head);
  config[kClassifierDropout] = head.dropout_with(kHeadDropout);
  return config;
}

TextOptions ModernWith(ModernOptions options, const WeightShapes& weights) {
  for (const auto& [name, shape] : weights) {
    const bool has_words = name.ends_with("tok_embeddings.weight") || name.ends_with("decoder.weight");  // are tied
    if (has_words && shape.size() == 2) options.vocab_size = shape[0];
  }
  return {.shape = options,
          .make = [=](const auto& shape,
                      const auto& head) { return std::make_shared<ModernBert>(options.With(shape), head); },
          .to_json = [=](const auto& shape, const auto& head) { return ModernToJson(options.With(shape), head); }};
}

// Replaces layer_types and rope_parameters, which transformers has written since its version 5, by the fields before.
void UseOlderFields(nlohmann::json& config) {
  constexpr char kFull[] = "full_attention", kSliding[] = "sliding_attention";
  if (const nlohmann::json types = config.value("layer_types", nlohmann::json()); !types.is_null()) {
    int64_t period = 1;
    while (period < std::ssize(types) && types.is_array() && types[period] != kFull) ++period;
    for (int64_t layer = 0; layer < std::ssize(types); ++layer) {
      if (types.is_array() && types[layer] == (layer % period == 0 ? kFull : kSliding)) continue;
      RefuseValue("layer_types", types, "full_attention in every n-th layer and sliding_attention in the others");
    }
    if (config.value("num_hidden_layers", nlohmann::json(ModernOptions().layers)) != types.size())
      RefuseValue("layer_types", types, "a type for each layer");
    config["global_attn_every_n_layers"] = period;
  }
  const nlohmann::json rope = config.value("rope_parameters", nlohmann::json());
  for (const auto& [older, layers] : {std::pair("global_rope_theta", kFull), {"local_rope_theta", kSliding}}) {
    if (!rope.is_object() || !rope.contains(layers) || !rope[layers].is_object()) continue;
    if (rope[layers].contains("rope_theta")) config[older] = rope[layers]["rope_theta"];
  }
}

TextOptions ModernFromJson(nlohmann::json config, const WeightShapes& weights) {
  RequireObject(config);
  UseOlderFields(config);
  if (config.value("local_rope_theta", nlohmann::json(0)).is_null()) {  // that of the other layers
    config["local_rope_theta"] = config.value("global_rope_theta", nlohmann::json(ModernOptions().global_theta));
  }
  ModernOptions options;
  for (const auto& [name, member, least] : kWholeFields) ReadWhole(config, name, least, kMost, options.*member);
  for (const auto& [name, member] : kOptionalFields) {
    if (config.value(name, nlohmann::json(0)).is_null())
      (options.*member).reset();
    else
      ReadWhole(config, name, 0, kMost, *(options.*member));
  }
  for (const auto& [name, member, most] : kNumberFields) ReadNumber(config, name, most, options.*member);
  options.takes_mean = config.value("classifier_pooling", nlohmann::json("cls")) == "mean";
  if (options.padding_id >= options.vocab_size) {
    RefuseValue("pad_token_id", options.padding_id, "less than vocab_size, " + std::to_string(options.vocab_size));
  }
  if (options.hidden_size % options.heads != 0 || options.hidden_size / options.heads % 2 != 0) {
    RefuseValue("num_attention_heads", options.heads,
                "a divisor of hidden_size, " + std::to_string(options.hidden_size) + ", with an even result");
  }
  return ModernWith(options, weights);
}

// Family::layer_of.
int64_t ModernLayerOf(std::string_view parameter) {
  constexpr std::string_view kLayers = "model.layers.";
  if (parameter.starts_with(kLayers)) return 1 + std::stoll(std::string(parameter.substr(kLayers.size())));
  return parameter.starts_with("model.embeddings.") ? 0 : kWithHead;
}

}  // namespace

Family ModernBertFamily() {
  const auto fits = [](const WeightShapes& weights) {
    return std::ranges::any_of(weights, [](const auto& item) {
      const std::string& name = item.first;
      return name.ends_with("embeddings.tok_embeddings.weight") || name.ends_with("layers.0.attn.Wqkv.weight");
    });
  };
  Family family = {.name = "ModernBERT",
                   .input = Input::kText,
                   .heads = {{"decoder", "", {"head"}}, {"classifier", "classifier.weight", {"head"}}},
                   .options = kTextOptions,
                   .models = {{.name = "modernbert",
                               .description = "ModernBERT for text, with the shape in --model_config=FILE",
                               .fits = fits}},
                   .config_fields = ModernConfigFields(),
                   .layer_of = ModernLayerOf,
                   .text = {.model_type = "modernbert",
                            .backbone = "model",
                            .classes = kModernClasses,
                            .word_rows = {kModernWords, "decoder.bias"},
                            .unseen_fields = {"num_attention_heads", "norm_eps", "pad_token_id", "vocab_size",
                                              "global_attn_every_n_layers", "local_attention", "global_rope_theta",
                                              "local_rope_theta", "classifier_pooling"},
                            .from_json = ModernFromJson}};
  ModernOptions large;
  large.hidden_size = 1024;
  large.layers = 28;
  large.heads = 16;
  large.intermediate_size = 2624;
  for (const auto& [name, shape] : {std::pair("modernbert_base", ModernOptions()), {"modernbert_large", large}}) {
    family.models.push_back({.name = name,
                             .description = DescriptionOf("ModernBERT", shape.layers, shape.hidden_size, shape.heads),
                             .text = [own = shape](const WeightShapes& weights) { return ModernWith(own, weights); },
                             .fits = fits});
  }
  UseTransformersNames({.backbone = "model.",
                        .words = kModernWords,
                        .decoder = "decoder",
                        .head = "decoder",
                        .of_no_model = {"rotary_emb."}},
                       family);
  return family;
}

}  // namespace dtrain::models
