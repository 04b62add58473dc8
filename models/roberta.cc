// A head is a few layers after the encoder, which BertEncoder draws, runs and counts.
#include "models/roberta.h"

#include <ATen/ATen.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "models/family.h"
#include "models/weight_names.h"

namespace dtrain::models {
namespace {

constexpr char kClassifier[] = "RobertaForSequenceClassification";

const std::pair<const char*, EncoderOptions> kNamed[] = {
    {"roberta_tiny", {.hidden_size = 128, .layers = 2, .heads = 2, .intermediate_size = 512}},
    {"roberta_base", {}},
    {"roberta_large", {.hidden_size = 1024, .layers = 24, .heads = 16, .intermediate_size = 4096}},
};

// RobertaFromJson reads those of the second paragraph. The last ones change nothing here.
constexpr char kRobertaFields[] = R"({
  "model_type": ["roberta"], "hidden_act": ["gelu"], "position_embedding_type": ["absolute"],
  "tie_word_embeddings": [true],

  "vocab_size": null, "hidden_size": null, "num_hidden_layers": null, "num_attention_heads": null,
  "intermediate_size": null, "pad_token_id": null, "max_position_embeddings": null, "type_vocab_size": null,
  "layer_norm_eps": null, "initializer_range": null, "hidden_dropout_prob": null, "attention_probs_dropout_prob": null,
  "classifier_dropout": null, "problem_type": null,

  "use_cache": null, "gradient_checkpointing": null, "output_past": null
})";

// Family::layer_of.
std::optional<int64_t> LayerOf(std::string_view parameter) {
  constexpr std::string_view kLayer = ".layer.";
  if (const size_t found = parameter.find(kLayer); found != std::string_view::npos) {
    return 1 + std::stoll(std::string(parameter.substr(found + kLayer.size())));
  }
  return parameter.find(".embeddings.") != std::string_view::npos ? std::optional<int64_t>(0) : std::nullopt;
}

// Returns the rows of the matrix whose name ends like this in either naming, or 0 if there is none.
int64_t RowsOf(const WeightShapes& weights, std::string_view hugging_face, std::string_view fairseq) {
  for (const auto& [name, shape] : weights) {
    if ((name.ends_with(hugging_face) || name.ends_with(fairseq)) && shape.size() == 2) return shape[0];
  }
  return 0;
}

// The weights have the last word on sizes.
TextOptions TextOptionsWith(EncoderOptions options, const WeightShapes& weights) {
  if (const int64_t words = RowsOf(weights, "word_embeddings.weight", "embed_tokens.weight"))
    options.vocab_size = words;
  const int64_t positions = RowsOf(weights, "position_embeddings.weight", "embed_positions.weight");
  if (positions > options.first_position) options.max_positions = positions;
  if (const int64_t types = RowsOf(weights, "token_type_embeddings.weight", " ")) options.token_types = types;
  const auto make = [options](const TextShape& shape, const ClassifierOptions* head) -> std::shared_ptr<TextModel> {
    const EncoderOptions own = options.With(shape);
    if (head == nullptr) return std::make_shared<RobertaForMaskedLM>(own);
    return std::make_shared<RobertaForSequenceClassification>(own, head->outputs(), head->dropout_with(own.dropout));
  };
  const auto to_json = [options](const TextShape& shape, const ClassifierOptions* head) {
    return ToJson(options.With(shape), head);
  };
  return {.shape = options.shape(), .make = make, .to_json = to_json};
}

// Returns x with more rows of one value.
at::Tensor Padded(const at::Tensor& x, int64_t rows, double value) {
  std::vector<int64_t> padding(static_cast<size_t>(2 * x.dim()));
  padding.back() = rows;
  return rows == 0 ? x : at::constant_pad_nd(x, padding, value);
}

}  // namespace

RobertaForMaskedLM::RobertaForMaskedLM(const EncoderOptions& options) : BertEncoder("roberta", options) {
  head_dense_ = Linear(options.hidden_size, options.hidden_size, InitialWeights::kNotYet);
  head_norm_ = LayerNorm(options.hidden_size, options.layer_norm_epsilon);
  const auto head = register_module("lm_head", Group({{"dense", head_dense_.ptr()}, {"layer_norm", head_norm_.ptr()}}));
  head_bias_ = head->register_parameter("bias", at::zeros(options.vocab_size, DeviceOfNewWeights()));
  DrawWeights(*head);
}

at::Tensor RobertaForMaskedLM::ForWords(const at::Tensor& hidden_RH) {
  const TextKernels* kernels = KernelsFor(hidden_RH);
  if (kernels == nullptr) return head_norm_(at::gelu(head_dense_(hidden_RH)));
  const at::Tensor x_RH =
      BiasGelu(*kernels, at::linear(hidden_RH, head_dense_->WeightForProducts()), head_dense_->bias);
  const ResidualNorm norm{
      .x_bias = {}, .weight = head_norm_->weight, .bias = head_norm_->bias, .epsilon = head_norm_->epsilon()};
  return NormalisedFirst(*kernels, x_RH, {}, norm, x_RH.scalar_type()).main;
}

at::Tensor RobertaForMaskedLM::Scores(const at::Tensor& hidden_RH, int64_t columns_multiple) {
  const at::Tensor x_RH = ForWords(hidden_RH);
  const int64_t columns = words_VH().size(0);
  const int64_t missing = (columns_multiple - columns % columns_multiple) % columns_multiple;
  at::Tensor words = is_training() ? half_words_.Rows(columns + missing) : at::Tensor();
  if (!words.defined()) words = Padded(words_VH(), missing, 0);
  return at::linear(x_RH, words, Padded(head_bias_, missing, -std::numeric_limits<double>::infinity()));
}

ForwardCost RobertaForMaskedLM::Cost(int64_t tokens, int64_t length, int64_t rows) const {
  const int64_t hidden = options().hidden_size, words = options().vocab_size;
  ForwardCost cost = EncoderCost(tokens, length, rows);
  cost.multiply_adds += rows * (hidden * hidden + hidden * words);
  cost.activation_elements += rows * (4 * hidden + 2 * words);
  cost.moved_elements += static_cast<double>(rows * words) * 3;  // the scores are read, read again and written
  return cost;
}

RobertaForSequenceClassification::RobertaForSequenceClassification(const EncoderOptions& options, int64_t outputs,
                                                                   double classifier_dropout)
    : BertEncoder("roberta", options), classifier_dropout_(classifier_dropout) {
  dense_ = Linear(options.hidden_size, options.hidden_size, InitialWeights::kNotYet);
  out_proj_ = Linear(options.hidden_size, outputs, InitialWeights::kNotYet);
  DrawWeights(*register_module("classifier", Group({{"dense", dense_.ptr()}, {"out_proj", out_proj_.ptr()}})));
}

at::Tensor RobertaForSequenceClassification::Classify(const at::Tensor& hidden_RH) {
  const auto dropped = [this](const at::Tensor& x) { return at::dropout(x, classifier_dropout_, is_training()); };
  return out_proj_(dropped(dense_(dropped(hidden_RH)).tanh()));
}

ForwardCost RobertaForSequenceClassification::Cost(int64_t tokens, int64_t length, int64_t rows) const {
  const int64_t hidden = options().hidden_size;
  ForwardCost cost = EncoderCost(tokens, length, rows);
  cost.multiply_adds += rows * hidden * (hidden + outputs());
  cost.activation_elements += rows * (3 * hidden + 2 * outputs());  // inputs of both layers, tanh, logits and softmax
  return cost;
}

std::optional<EncoderOptions> RobertaNamed(const std::string& name) {
  for (const auto& [known, options] : kNamed) {
    if (known == name) return options;
  }
  return std::nullopt;
}

EncoderOptions RobertaFromJson(const nlohmann::json& config) {
  RequireObject(config);
  constexpr int64_t kMost = 1 << 24;
  EncoderOptions options;
  options.max_positions = 512;  // these are RobertaConfig's own; published models say 514, 1 and 1e-5
  options.token_types = 2;
  options.layer_norm_epsilon = 1e-12;
  ReadWhole(config, "vocab_size", 5, kMost, options.vocab_size);
  ReadWhole(config, "hidden_size", 1, kMost, options.hidden_size);
  ReadWhole(config, "num_hidden_layers", 1, 1'000, options.layers);
  ReadWhole(config, "num_attention_heads", 1, kMost, options.heads);
  ReadWhole(config, "intermediate_size", 1, kMost, options.intermediate_size);
  ReadWhole(config, "pad_token_id", 0, options.vocab_size - 1, options.padding_id);
  options.first_position = options.padding_id + 1;
  ReadWhole(config, "max_position_embeddings", options.first_position + 1, kMost, options.max_positions);
  ReadWhole(config, "type_vocab_size", 1, kMost, options.token_types);
  ReadNumber(config, "layer_norm_eps", 1, options.layer_norm_epsilon);
  ReadNumber(config, "initializer_range", 10, options.initializer_range);
  ReadNumber(config, "hidden_dropout_prob", 1, options.dropout);
  ReadNumber(config, "attention_probs_dropout_prob", 1, options.attention_dropout);
  if (options.hidden_size % options.heads != 0) {
    RefuseValue("num_attention_heads", options.heads,
                "a divisor of hidden_size, " + std::to_string(options.hidden_size));
  }
  return options;
}

nlohmann::ordered_json ToJson(const EncoderOptions& options, const ClassifierOptions* classifier) {
  nlohmann::ordered_json config = {{"architectures", {"RobertaForMaskedLM"}},
                                   {"model_type", "roberta"},
                                   {"vocab_size", options.vocab_size},
                                   {"hidden_size", options.hidden_size},
                                   {"num_hidden_layers", options.layers},
                                   {"num_attention_heads", options.heads},
                                   {"intermediate_size", options.intermediate_size},
                                   {"hidden_act", "gelu"},
                                   {"hidden_dropout_prob", options.dropout},
                                   {"attention_probs_dropout_prob", options.attention_dropout},
                                   {"max_position_embeddings", options.max_positions},
                                   {"position_embedding_type", "absolute"},
                                   {"type_vocab_size", options.token_types},
                                   {"initializer_range", options.initializer_range},
                                   {"layer_norm_eps", options.layer_norm_epsilon},
                                   {"bos_token_id", 0},
                                   {"pad_token_id", options.padding_id},
                                   {"eos_token_id", 2},
                                   {"tie_word_embeddings", true},
                                   {"torch_dtype", "float32"}};
  if (classifier != nullptr) AddTo(config, kClassifier, *classifier);
  return config;
}

Family RobertaFamily() {
  Family family = {
      .name = "RoBERTa",
      .input = Input::kText,
      .heads = {{"lm_head"}, {"classifier", "classifier.out_proj.weight"}},
      .options = {"model_config", "dropout", "attention_dropout", "classifier_dropout", "activation_checkpointing",
                  "layer_decay"},
      .models = {},
      .config_fields = kRobertaFields,
      .name_order = {"roberta", "classifier", "word_embeddings", "position_embeddings", "token_type_embeddings",
                     "embeddings", "encoder", "attention", "intermediate", "self", "output", "query", "key", "value",
                     "dense", "layer_norm", "LayerNorm", "decoder",
                     // fairseq's
                     "sentence_encoder", "lm_head", "embed_tokens", "embed_positions", "layernorm_embedding", "layers",
                     "self_attn", "self_attn_layer_norm", "k_proj", "v_proj", "q_proj", "out_proj", "fc1", "fc2",
                     "final_layer_norm"},
      .naming_of = [](const WeightShapes& weights) -> std::string {
        const WeightNaming naming = NamingOf(weights);
        return naming == WeightNaming::kUnknown ? "" : naming == WeightNaming::kFairseq ? "fairseq" : "hf";
      },
      .own_names = [](const NamedWeights& weights, const Model&,
                      std::vector<std::string>* left_out) { return RobertaWeightsFrom(weights, left_out); },
      .layer_of = LayerOf,
      .for_head = ForRobertaHead,
      .text = {.model_type = "roberta",
               .backbone = "roberta",
               .classifier = kClassifier,
               .tokenizer = "RobertaTokenizer",
               .word_rows = {"roberta.embeddings.word_embeddings.weight", "lm_head.bias"},
               .unseen_fields = {"num_attention_heads", "layer_norm_eps", "pad_token_id", "vocab_size",
                                 "max_position_embeddings", "type_vocab_size"},
               .from_json =
                   [](const nlohmann::json& config, const WeightShapes& weights) {
                     return TextOptionsWith(RobertaFromJson(config), weights);
                   },
               .classifier_outputs = ClassificationHeadOutputs,
               .with_tied_decoder = WithTiedDecoder,
               .fairseq_names = [](const NamedWeights& weights,
                                   const TextShape& shape) { return ToFairseq(weights, shape.padding_id); }}};
  const auto fits = [](const WeightShapes& weights) { return NamingOf(weights) != WeightNaming::kUnknown; };
  family.models.push_back(
      {.name = "roberta", .description = "RoBERTa for text, with the shape in --model_config=FILE", .fits = fits});
  for (const auto& [name, shape] : kNamed) {
    const std::string description = "RoBERTa of " + std::to_string(shape.layers) + " layers, " +
                                    std::to_string(shape.hidden_size) + " wide, with " + std::to_string(shape.heads) +
                                    " heads, for text";
    const auto text = [own = shape](const WeightShapes& weights) { return TextOptionsWith(own, weights); };
    family.models.push_back({.name = name, .description = description, .text = text, .fits = fits});
  }
  return family;
}

}  // namespace dtrain::models
