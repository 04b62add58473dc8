// A head is a few layers after the encoder, which RobertaEncoder draws, runs and counts.
#include "models/roberta.h"

#include <ATen/ATen.h>

#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "models/family.h"
#include "models/weight_names.h"

namespace dtrain::models {
namespace {

// Family::layer_of.
std::optional<int64_t> LayerOf(std::string_view parameter) {
  constexpr std::string_view kLayer = ".layer.";
  if (const size_t found = parameter.find(kLayer); found != std::string_view::npos) {
    return 1 + std::stoll(std::string(parameter.substr(found + kLayer.size())));
  }
  return parameter.find(".embeddings.") != std::string_view::npos ? std::optional<int64_t>(0) : std::nullopt;
}

// Returns x with more rows of one value.
at::Tensor Padded(const at::Tensor& x, int64_t rows, double value) {
  std::vector<int64_t> padding(static_cast<size_t>(2 * x.dim()));
  padding.back() = rows;
  return rows == 0 ? x : at::constant_pad_nd(x, padding, value);
}

}  // namespace

RobertaForMaskedLM::RobertaForMaskedLM(const RobertaOptions& options) : RobertaEncoder(options) {
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

ForwardCost RobertaForMaskedLM::Cost(int64_t tokens, int64_t length, int64_t scored) const {
  const int64_t hidden = options().hidden_size, words = options().vocab_size;
  ForwardCost cost = EncoderCost(tokens, length, scored);
  cost.multiply_adds += scored * (hidden * hidden + hidden * words);
  cost.activation_elements += scored * (4 * hidden + 2 * words);
  cost.moved_elements += static_cast<double>(scored * words) * 3;  // the scores are read, read again and written
  return cost;
}

RobertaForSequenceClassification::RobertaForSequenceClassification(const RobertaOptions& options, int64_t outputs,
                                                                   double classifier_dropout)
    : RobertaEncoder(options), classifier_dropout_(classifier_dropout) {
  dense_ = Linear(options.hidden_size, options.hidden_size, InitialWeights::kNotYet);
  out_proj_ = Linear(options.hidden_size, outputs, InitialWeights::kNotYet);
  DrawWeights(*register_module("classifier", Group({{"dense", dense_.ptr()}, {"out_proj", out_proj_.ptr()}})));
}

at::Tensor RobertaForSequenceClassification::forward(const Sequences& sequences) {
  const auto dropped = [this](const at::Tensor& x) { return at::dropout(x, classifier_dropout_, is_training()); };
  return out_proj_(dropped(dense_(dropped(EncodeFirst(sequences))).tanh()));
}

ForwardCost RobertaForSequenceClassification::Cost(int64_t count, int64_t length) const {
  const int64_t hidden = options().hidden_size, outputs = out_proj_->weight.size(0);
  ForwardCost cost = EncoderCost(count * length, length, count);
  cost.multiply_adds += count * hidden * (hidden + outputs);
  cost.activation_elements += count * (3 * hidden + 2 * outputs);  // inputs of both layers, tanh, logits and softmax
  return cost;
}

Family RobertaFamily() {
  Family family = {
      .name = "RoBERTa",
      .input = Input::kText,
      .heads = {{"lm_head"}, {"classifier", "classifier.out_proj.weight"}},
      .options = {"model_config", "dropout", "attention_dropout", "activation_checkpointing", "layer_decay"},
      .models = {},
      .config_fields = kRobertaConfigFields,
      .own_names = [](const NamedWeights& weights, const Model&,
                      std::vector<std::string>* left_out) { return RobertaWeightsFrom(weights, left_out); },
      .layer_of = LayerOf,
      .for_head = ForRobertaHead};
  const auto fits = [](const WeightShapes& weights) { return NamingOf(weights) != WeightNaming::kUnknown; };
  family.models.push_back(
      {.name = "roberta", .description = "RoBERTa for text, with the shape in --model_config=FILE", .fits = fits});
  for (const std::string& name : RobertaNames()) {
    const RobertaOptions shape = *RobertaNamed(name);
    family.models.push_back({.name = name,
                             .description = "RoBERTa of " + std::to_string(shape.layers) + " layers, " +
                                            std::to_string(shape.hidden_size) + " wide, with " +
                                            std::to_string(shape.heads) + " heads, for text",
                             .fits = fits});
  }
  return family;
}

}  // namespace dtrain::models
