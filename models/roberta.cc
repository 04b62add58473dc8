// RoBERTa, and the models with its encoder and another tokenizer: XLM-R, Conneau et al. 2019 (arXiv:1911.02116), and
// CamemBERT, Martin et al. 2019 (arXiv:1911.03894).
#include "models/roberta.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "models/bert_family.h"
#include "models/weight_names.h"

namespace dtrain::models {
namespace {

constexpr ClassifierForm kClassifier = {
    .output = "classifier.out_proj", .dense = "classifier.dense", .activation = at::tanh, .drops_input = true};

const EncoderOptions kTiny = {.hidden_size = 128, .layers = 2, .heads = 2, .intermediate_size = 512};
const EncoderOptions kLarge = {.hidden_size = 1024, .layers = 24, .heads = 16, .intermediate_size = 4096};

EncoderOptions WithWords(EncoderOptions options, int64_t words) {
  options.vocab_size = words;
  return options;
}

BertKind KindWith(const std::string& name, const std::string& model, const std::string& type,
                  const std::string& classes, std::vector<std::pair<std::string, EncoderOptions>> shapes) {
  return {.name = name,
          .model = model,
          .type = type,
          .classes = classes,
          .tokenizer = classes + "Tokenizer",
          .backbone = "roberta",
          // RobertaConfig's own; published models say 514, 1 and 1e-5.
          .defaults = {.max_positions = 512, .token_types = 2, .layer_norm_epsilon = 1e-12},
          .counts_padding = false,
          .words = {},
          .classifier = kClassifier,
          .shapes = std::move(shapes)};
}

const BertKind& Roberta() {
  static const BertKind kind =
      KindWith("RoBERTa", "roberta", "roberta", "Roberta", {{"tiny", kTiny}, {"base", {}}, {"large", kLarge}});
  return kind;
}

// The names of fairseq's models are RoBERTa's, and so are those of all that share its encoder.
bool Fits(const WeightShapes& weights) {
  return NamingOf(weights) != WeightNaming::kUnknown && !HaveEncoder(weights, "bert") &&
         !HaveEncoder(weights, "distilbert") && !HaveBareEncoder(weights, "transformer.layer.");
}

Family FamilyWith(const BertKind& kind) {
  Family family = FamilyOfKind(kind, Fits);
  family.heads = {{"lm_head"}, {"classifier", "classifier.out_proj.weight"}, {"classifier", "classifier.weight"}};
  family.name_order = {"roberta", "classifier", "word_embeddings", "position_embeddings", "token_type_embeddings",
                       "embeddings", "encoder", "attention", "intermediate", "self", "output", "query", "key", "value",
                       "dense", "layer_norm", "LayerNorm", "decoder",
                       // fairseq's
                       "sentence_encoder", "lm_head", "embed_tokens", "embed_positions", "layernorm_embedding",
                       "layers", "self_attn", "self_attn_layer_norm", "k_proj", "v_proj", "q_proj", "out_proj", "fc1",
                       "fc2", "final_layer_norm"};
  family.naming_of = [](const WeightShapes& weights) -> std::string {
    const WeightNaming naming = NamingOf(weights);
    return naming == WeightNaming::kUnknown ? "" : naming == WeightNaming::kFairseq ? "fairseq" : "hf";
  };
  family.own_names = [](const NamedWeights& weights, const Model&, std::vector<std::string>* left_out) {
    return RobertaWeightsFrom(weights, left_out);
  };
  family.for_head = ForRobertaHead;
  family.text.classifier_outputs = ClassificationHeadOutputs;
  family.text.labels_tokens = LabelsTokens;
  family.text.with_tied_decoder = WithTiedDecoder;
  family.text.fairseq_names = [](const NamedWeights& weights, const TextShape& shape) {
    return ToFairseq(weights, shape.padding_id);
  };
  return family;
}

}  // namespace

RobertaForMaskedLM::RobertaForMaskedLM(const EncoderOptions& options)
    : BertForMaskedLM("roberta", options, WordHeadNames()) {}

RobertaForSequenceClassification::RobertaForSequenceClassification(const EncoderOptions& options, int64_t outputs,
                                                                   double classifier_dropout)
    : BertClassifier("roberta", options, kClassifier, outputs, classifier_dropout) {}

std::optional<EncoderOptions> RobertaNamed(const std::string& name) {
  for (const auto& [known, options] : Roberta().shapes) {
    if (Roberta().model + "_" + known == name) return options;
  }
  return std::nullopt;
}

EncoderOptions RobertaFromJson(const nlohmann::json& config) { return EncoderFromJson(Roberta(), config); }

nlohmann::ordered_json ToJson(const EncoderOptions& options, const ClassifierOptions* classifier) {
  return EncoderToJson(Roberta(), options, classifier);
}

Family RobertaFamily() { return FamilyWith(Roberta()); }

Family XlmRobertaFamily() {
  constexpr int64_t kWords = 250'002;
  static const BertKind kind = KindWith("XLM-R", "xlm_roberta", "xlm-roberta", "XLMRoberta",
                                        {{"base", WithWords({}, kWords)}, {"large", WithWords(kLarge, kWords)}});
  return FamilyWith(kind);
}

Family CamembertFamily() {
  EncoderOptions base = WithWords({}, 32'005);
  base.begin_id = 5;
  base.end_id = 6;
  static const BertKind kind = KindWith("CamemBERT", "camembert", "camembert", "Camembert", {{"base", base}});
  return FamilyWith(kind);
}

}  // namespace dtrain::models
