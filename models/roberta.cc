// RoBERTa: Liu et al. 2019 (arXiv:1907.11692), and the models with its encoder and another tokenizer: XLM-R, Conneau et
// al. 2019 (arXiv:1911.02116), and CamemBERT, Martin et al. 2019 (arXiv:1911.03894). Parameter names and logits are
// those of transformers' classes, without the tied decoder; fairseq's are converted.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "models/bert_family.h"

namespace dtrain::models {
namespace {

constexpr const char* kWordRows = "roberta.embeddings.word_embeddings.weight";
constexpr const char* kPositions = "roberta.embeddings.position_embeddings.weight";
constexpr const char* kTokenTypes = "roberta.embeddings.token_type_embeddings.weight";
constexpr std::string_view kWordHead = "lm_head.", kClassifierModule = "classifier.";
constexpr const char *kDecoderWeight = "lm_head.decoder.weight", *kDecoderBias = "lm_head.decoder.bias";
constexpr std::string_view kFairseqHeads = "classification_heads.";
constexpr std::string_view kFairseqClassifier = "classification_heads.sentence_classification_head.";

// fairseq 0.12's names.
constexpr auto kFairseq = std::to_array<NamePair>({
    {"roberta.embeddings.word_embeddings.", "encoder.sentence_encoder.embed_tokens."},
    {"roberta.embeddings.position_embeddings.", "encoder.sentence_encoder.embed_positions."},
    {"roberta.embeddings.LayerNorm.", "encoder.sentence_encoder.layernorm_embedding."},
    {"roberta.encoder.layer.#.attention.self.query.", "encoder.sentence_encoder.layers.#.self_attn.q_proj."},
    {"roberta.encoder.layer.#.attention.self.key.", "encoder.sentence_encoder.layers.#.self_attn.k_proj."},
    {"roberta.encoder.layer.#.attention.self.value.", "encoder.sentence_encoder.layers.#.self_attn.v_proj."},
    {"roberta.encoder.layer.#.attention.output.dense.", "encoder.sentence_encoder.layers.#.self_attn.out_proj."},
    {"roberta.encoder.layer.#.attention.output.LayerNorm.", "encoder.sentence_encoder.layers.#.self_attn_layer_norm."},
    {"roberta.encoder.layer.#.intermediate.dense.", "encoder.sentence_encoder.layers.#.fc1."},
    {"roberta.encoder.layer.#.output.dense.", "encoder.sentence_encoder.layers.#.fc2."},
    {"roberta.encoder.layer.#.output.LayerNorm.", "encoder.sentence_encoder.layers.#.final_layer_norm."},
    {"lm_head.dense.", "encoder.lm_head.dense."},
    {"lm_head.layer_norm.", "encoder.lm_head.layer_norm."},
    {"lm_head.decoder.weight", "encoder.lm_head.weight"},
    {"lm_head.bias", "encoder.lm_head.bias"},
    {"classifier.", kFairseqClassifier},
});

// What older versions of fairseq called otherwise. They also have one matrix for query, key and value.
constexpr auto kOlderFairseq = std::to_array<NamePair>({
    {"encoder.sentence_encoder.layernorm_embedding.", "decoder.sentence_encoder.emb_layer_norm."},
    {"encoder.sentence_encoder.layernorm_embedding.", "encoder.sentence_encoder.emb_layer_norm."},
    {"encoder.sentence_encoder.", "decoder.sentence_encoder."},
    {"encoder.lm_head.", "decoder.lm_head."},
});
constexpr std::string_view kProjection = "self_attn.in_proj_";
constexpr auto kProjections =
    std::to_array<std::string_view>({"self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj."});

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Family::naming_of.
std::string NamingOfRoberta(const WeightShapes& weights) {
  for (const auto& [name, shape] : weights) {
    if (Contains(name, "sentence_encoder.")) return "fairseq";
    if (Contains(name, "embeddings.word_embeddings.")) return "hf";
  }
  return "";
}

// Returns "classification_heads.NAME." for the name of a weight in one of fairseq's heads, else an empty string.
std::string FairseqHeadOf(const std::string& name) {
  const size_t head = name.find(kFairseqHeads);
  const size_t dot = head == std::string::npos ? head : name.find('.', head + kFairseqHeads.size());
  return dot == std::string::npos ? "" : name.substr(head, dot + 1 - head);
}

std::set<std::string> FairseqHeadsOf(const WeightShapes& weights) {
  std::set<std::string> heads;
  for (const auto& [name, shape] : weights) heads.insert(FairseqHeadOf(name));
  heads.erase("");
  return heads;
}

// Returns the head that classifies sequences: fairseq's default one or the only one. Empty if there is none, or none of
// several is the default.
std::string ChosenHead(const std::set<std::string>& heads) {
  if (heads.contains(std::string(kFairseqClassifier))) return std::string(kFairseqClassifier);
  return heads.size() == 1 ? *heads.begin() : "";
}

// Converts to the names here. There are no token types in fairseq, so their row becomes 0. Weights of no model's, and
// all heads but the chosen one, if one is, are left out.
NamedWeights FromFairseq(NamedWeights weights, std::vector<std::string>* left_out) {
  const std::string chosen = ChosenHead(FairseqHeadsOf(ShapesOf(weights)));
  const auto is_of_none = [&chosen](const std::string& name) {
    const std::string head = FairseqHeadOf(name);
    return (!chosen.empty() && !head.empty() && head != chosen) ||
           (Contains(name, "sentence_encoder.") && (Contains(name, ".version") || Contains(name, "_float_tensor")));
  };
  LeaveOut(weights, is_of_none, left_out);
  if (!chosen.empty()) {
    for (auto& [name, tensor] : weights) ReplaceStart(name, chosen, kFairseqClassifier);
  }
  weights = WithOurNames(WithOurNames(WithSplit(weights, kProjection, kProjections), kOlderFairseq), kFairseq);
  if (const at::Tensor positions = Find(weights, kPositions); positions.defined()) {
    weights.emplace_back(kTokenTypes, at::zeros({1, positions.size(-1)}, positions.options()));
  }
  return weights;
}

// Family::for_head. The head itself may be missing, too.
NamedWeights ForRobertaHead(NamedWeights weights, std::string_view head, std::vector<std::string>* left_out) {
  const bool wants_words = std::string(head) + "." == kWordHead, classifies = !wants_words && !head.empty();
  const auto is_of_words = [](const std::string& name) { return name.starts_with(kWordHead); };
  const auto is_of_classifier = [](const std::string& name) {
    return name.starts_with(kClassifierModule) || name.starts_with(kFairseqHeads);
  };
  const std::set<std::string> heads = FairseqHeadsOf(ShapesOf(weights));  // if it was not clear which one to take
  if (classifies && heads.size() > 1) {
    std::string names;
    for (const std::string& name : heads) names += (names.empty() ? "" : ", ") + name;
    throw std::invalid_argument("it has several classification heads, of which one should be called " +
                                std::string(kFairseqClassifier) + ": " + names);
  }
  const auto has = [&weights](const auto& is) {
    return std::ranges::any_of(weights, [&is](const auto& item) { return is(item.first); });
  };
  if (wants_words && has(is_of_classifier) && !has(is_of_words)) {
    throw std::invalid_argument("it has a classification head and no masked-LM head");
  }
  LeaveOut(
      weights,
      [&](const std::string& name) {
        return (!classifies && is_of_classifier(name)) || (!wants_words && is_of_words(name));
      },
      left_out);
  return weights;
}

// TextFamily::other_outputs. 0 also if it is not clear which head classifies.
int64_t OutputsOfFairseq(const WeightShapes& weights) {
  const std::string chosen = ChosenHead(FairseqHeadsOf(weights));
  return chosen.empty() ? 0 : RowsNamed(weights, chosen + "out_proj.weight");
}

// TextFamily::fairseq_config. The arguments that shapes do not show, and the shape, which is whole if it is there.
// Without a model_type, it fits all that share the encoder.
nlohmann::json FairseqConfig(const nlohmann::json& arguments, const WeightShapes& weights) {
  if (NamingOfRoberta(weights) != "fairseq") return {};
  nlohmann::json config = {{"pad_token_id", 1},
                           {"layer_norm_eps", 1e-5},
                           {"type_vocab_size", 1},
                           {"vocab_size", RowsNamed(weights, "embed_tokens.weight")},
                           {"max_position_embeddings", RowsNamed(weights, "embed_positions.weight")}};
  for (const auto& [theirs, field] : {std::pair{"encoder_layers", "num_hidden_layers"},
                                      {"encoder_embed_dim", "hidden_size"},
                                      {"encoder_ffn_embed_dim", "intermediate_size"},
                                      {"encoder_attention_heads", "num_attention_heads"},
                                      {"activation_fn", "hidden_act"}}) {
    if (!arguments.contains(theirs)) return {};
    config[field] = arguments[theirs];
  }
  // Of a classifier; transformers has no field for it.
  const char* const pooler = "pooler_activation_fn";
  if (const auto said = arguments.value(pooler, nlohmann::json("tanh")); said != "tanh") config[pooler] = said;
  return config;
}

// TextFamily::fairseq_names. The token type's row is added to the rows of the positions, except that of padding.
// fairseq's models always have a masked-LM head: if there is none, one that has learned nothing is added (an identity,
// normalised).
NamedWeights ToFairseq(const NamedWeights& weights, const TextShape& shape) {
  const at::Tensor words_VH = Find(weights, kWordRows), types = Find(weights, kTokenTypes);
  NamedWeights all;
  for (const auto& [name, tensor] : weights) {
    if (name == kTokenTypes || name == kDecoderBias) continue;
    all.emplace_back(name, tensor);
    if (name != kPositions || !types.defined()) continue;
    all.back().second = tensor + types.slice(0, 0, 1);
    all.back().second[shape.padding_id].copy_(tensor[shape.padding_id]);
  }
  if (words_VH.defined() && !Find(weights, "lm_head.bias").defined()) {
    const auto type = words_VH.options();
    const int64_t words = words_VH.size(0), hidden = words_VH.size(1);
    all.emplace_back("lm_head.dense.weight", at::eye(hidden, type));
    all.emplace_back("lm_head.dense.bias", at::zeros(hidden, type));
    all.emplace_back("lm_head.layer_norm.weight", at::ones(hidden, type));
    all.emplace_back("lm_head.layer_norm.bias", at::zeros(hidden, type));
    all.emplace_back("lm_head.bias", at::zeros(words, type));
  }
  if (words_VH.defined() && !Find(weights, kDecoderWeight).defined()) all.emplace_back(kDecoderWeight, words_VH);
  return WithTheirNames(all, kFairseq, Unknown::kKept);
}

EncoderOptions Large(int64_t words) { return Sized({{.vocab_size = words}}, 1024, 24); }

// RobertaConfig's own defaults; published models say 514 positions, one token type and 1e-5.
EncoderOptions Defaults() {
  EncoderOptions options{{.longest_sequence = 510, .token_types = 2}};
  options.layer_norm_epsilon = 1e-12;
  return options;
}

BertKind KindWith(const std::string& name, const std::string& model, const std::string& type,
                  const std::string& classes, std::vector<std::pair<std::string, EncoderOptions>> shapes) {
  return {.name = name,
          .model = model,
          .type = type,
          .classes = classes,
          .backbone = "roberta",
          .defaults = Defaults(),
          .counts_padding = false,
          .words = {},
          .decoder = "lm_head.decoder",
          .classifier = {.output = "classifier.out_proj",
                         .dense = "classifier.dense",
                         .activation = at::tanh,
                         .drops_input = true},
          .heads = {{"lm_head"},
                    {"classifier", "classifier.weight", {}, HeadKind::kTokens},
                    {"classifier", "classifier.out_proj.weight"}},
          .of_no_model = {"pooler."},
          .shapes = std::move(shapes)};
}

// The names of fairseq's models are RoBERTa's, and so are those of all that share its encoder. Without its name, it may
// be BERT's, too, which comes first.
bool Fits(const WeightShapes& weights) {
  return NamingOfRoberta(weights) == "fairseq" || HaveEncoder(weights, "roberta") ||
         HaveBareEncoder(weights, "encoder.layer.");
}

Family FamilyWith(const BertKind& kind) {
  Family family = FamilyOfKind(kind, Fits);
  family.naming_of = NamingOfRoberta;
  family.own_names = [from_transformers = family.own_names](const NamedWeights& weights, const Model& model,
                                                            std::vector<std::string>* left_out) {
    const bool is_fairseqs = NamingOfRoberta(ShapesOf(weights)) == "fairseq";
    return from_transformers(is_fairseqs ? FromFairseq(weights, left_out) : weights, model, left_out);
  };
  family.for_head = ForRobertaHead;
  family.text.other_outputs = OutputsOfFairseq;
  family.text.fairseq_config = FairseqConfig;
  family.text.fairseq_names = ToFairseq;
  return family;
}

}  // namespace

Family RobertaFamily() {
  static const BertKind kind = KindWith("RoBERTa", "roberta", "roberta", "Roberta",
                                        {{"tiny", Sized({}, 128, 2)}, {"base", {}}, {"large", Large(50'265)}});
  return FamilyWith(kind);
}

Family XlmRobertaFamily() {
  constexpr int64_t kWordsOfXlm = 250'002;
  static const BertKind kind = KindWith("XLM-R", "xlm_roberta", "xlm-roberta", "XLMRoberta",
                                        {{"base", {{.vocab_size = kWordsOfXlm}}}, {"large", Large(kWordsOfXlm)}});
  return FamilyWith(kind);
}

Family CamembertFamily() {
  EncoderOptions base{{.vocab_size = 32'005}};
  base.begin_id = 5;
  base.end_id = 6;
  static const BertKind kind = KindWith("CamemBERT", "camembert", "camembert", "Camembert", {{"base", base}});
  return FamilyWith(kind);
}

}  // namespace dtrain::models
