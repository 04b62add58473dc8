// What the families share is here once; what they differ in is a BertKind.
#include "models/bert_family.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace dtrain::models {
namespace {

// EncoderFromJson reads those of the second paragraph, and the names in EncoderFields. The last ones change nothing.
constexpr char kEncoderFields[] = R"({
  "position_embedding_type": ["absolute"],

  "vocab_size": null, "pad_token_id": null, "max_position_embeddings": null, "initializer_range": null,
  "problem_type": null, "bos_token_id": null, "eos_token_id": null,

  "use_cache": null, "gradient_checkpointing": null, "output_past": null
})";

constexpr char kSinusoidal[] = "sinusoidal_pos_embds";  // DistilBERT's, which alone lists it

// Parts of names of weights that no model here has: heads of other tasks, and what is no weight.
constexpr const char* kOfNoModel[] = {"qa_outputs.", "cls.seq_relationship.", "position_ids", "token_type_ids"};

std::string FieldsOf(const BertKind& kind) {
  auto fields = nlohmann::json::parse(kEncoderFields);
  const EncoderFields& own = kind.fields;
  fields["model_type"] = {kind.type};
  fields[own.activation] = {"gelu"};
  for (const char* name : {own.hidden_size, own.layers, own.heads, own.intermediate_size, own.dropout,
                           own.attention_dropout, own.classifier_dropout}) {
    fields[name] = nullptr;
  }
  if (own.layer_norm_epsilon != nullptr) {
    fields[own.layer_norm_epsilon] = nullptr;
    fields["type_vocab_size"] = nullptr;
  }
  fields.update(nlohmann::json::parse(kind.more_fields));
  return fields.dump();
}

EncoderOptions EncoderFromJson(const BertKind& kind, const nlohmann::json& config) {
  RequireObject(config);
  constexpr int64_t kMost = 1 << 24;
  EncoderOptions options = kind.defaults;
  const EncoderFields& fields = kind.fields;
  ReadWhole(config, "vocab_size", 5, kMost, options.vocab_size);
  ReadWhole(config, fields.hidden_size, 1, kMost, options.hidden_size);
  ReadWhole(config, fields.layers, 1, 1'000, options.layers);
  ReadWhole(config, fields.heads, 1, kMost, options.heads);
  ReadWhole(config, fields.intermediate_size, 1, kMost, options.intermediate_size);
  ReadWhole(config, "pad_token_id", 0, options.vocab_size - 1, options.padding_id);
  options.first_position = kind.counts_padding ? 0 : options.padding_id + 1;
  int64_t positions = kind.defaults.positions();
  ReadWhole(config, "max_position_embeddings", options.first_position + 1, kMost, positions);
  options.longest_sequence = positions - options.first_position;
  if (fields.layer_norm_epsilon != nullptr) {
    ReadWhole(config, "type_vocab_size", 1, kMost, options.token_types);
    ReadNumber(config, fields.layer_norm_epsilon, 1, options.layer_norm_epsilon);
  }
  options.sinusoidal_positions = config.value(kSinusoidal, nlohmann::json()) == true;
  ReadNumber(config, "initializer_range", 10, options.initializer_range);
  ReadNumber(config, fields.dropout, 1, options.dropout);
  ReadNumber(config, fields.attention_dropout, 1, options.attention_dropout);
  if (options.begin_id && config.value("bos_token_id", nlohmann::json()).is_number())
    ReadWhole(config, "bos_token_id", 0, kMost, *options.begin_id);
  if (options.end_id && config.value("eos_token_id", nlohmann::json()).is_number())
    ReadWhole(config, "eos_token_id", 0, kMost, *options.end_id);
  if (options.hidden_size % options.heads != 0) {
    RefuseValue(fields.heads, options.heads,
                "a divisor of " + std::string(fields.hidden_size) + ", " + std::to_string(options.hidden_size));
  }
  return options;
}

// Returns the config.json that transformers reads back as this model.
nlohmann::ordered_json EncoderToJson(const BertKind& kind, const EncoderOptions& options, const TextHead& head) {
  const EncoderFields& fields = kind.fields;
  nlohmann::ordered_json config = {{"architectures", nullptr},  // AddTo knows it
                                   {"model_type", kind.type},
                                   {"vocab_size", options.vocab_size},
                                   {fields.hidden_size, options.hidden_size},
                                   {fields.layers, options.layers},
                                   {fields.heads, options.heads},
                                   {fields.intermediate_size, options.intermediate_size},
                                   {fields.activation, "gelu"},
                                   {fields.dropout, options.dropout},
                                   {fields.attention_dropout, options.attention_dropout},
                                   {"max_position_embeddings", options.positions()}};
  if (fields.layer_norm_epsilon != nullptr) {
    config["position_embedding_type"] = "absolute";
    config["type_vocab_size"] = options.token_types;
    config["initializer_range"] = options.initializer_range;
    config[fields.layer_norm_epsilon] = options.layer_norm_epsilon;
  } else {
    config["initializer_range"] = options.initializer_range;
    if (options.sinusoidal_positions) config[kSinusoidal] = true;  // runs of before do not know it
  }
  if (options.begin_id) config["bos_token_id"] = *options.begin_id;
  config["pad_token_id"] = options.padding_id;
  if (options.end_id) config["eos_token_id"] = *options.end_id;
  config["tie_word_embeddings"] = true;
  config["torch_dtype"] = "float32";
  AddTo(config, kind.classes, head);
  if (kind.classifier_dropout) {  // a number under its own name, also without a head
    config.erase(kClassifierDropout);
    const bool has_own = head.labels_of(Labelled::kSequences);
    config[fields.classifier_dropout] = has_own ? head.dropout_with(options.dropout) : *kind.classifier_dropout;
  }
  return config;
}

std::shared_ptr<TextModel> Made(const BertKind& kind, const EncoderOptions& options, const TextHead& head) {
  if (head.kind == HeadKind::kWords) return std::make_shared<BertForMaskedLM>(kind.backbone, options, kind.words);
  if (head.kind == HeadKind::kNone) return std::make_shared<BertAlone>(kind.backbone, options);
  const bool of_tokens = head.labels_of(Labelled::kTokens);
  return std::make_shared<BertClassifier>(kind.backbone, options, of_tokens ? ClassifierForm{} : kind.classifier,
                                          head.outputs(), head.dropout_with(options.dropout));
}

// The weights have the last word on sizes.
TextOptions OptionsWith(const BertKind& kind, EncoderOptions options, const WeightShapes& weights) {
  const auto rows_of = [&weights](std::string_view hugging_face, std::string_view fairseq) {
    return std::max(RowsNamed(weights, hugging_face), RowsNamed(weights, fairseq));
  };
  if (const int64_t words = rows_of("word_embeddings.weight", "embed_tokens.weight")) options.vocab_size = words;
  const int64_t positions = rows_of("position_embeddings.weight", "embed_positions.weight");
  if (positions > options.first_position) options.longest_sequence = positions - options.first_position;
  if (const int64_t types = RowsNamed(weights, "token_type_embeddings.weight")) options.token_types = types;
  return {
      .shape = options,
      .make = [&kind, options](const auto& shape, const auto& head) { return Made(kind, options.With(shape), head); },
      .to_json = [&kind, options](const auto& shape,
                                  const auto& head) { return EncoderToJson(kind, options.With(shape), head); }};
}

// Family::layer_of, of what is no head's: what the encoder has besides its layers are the embeddings.
int64_t LayerOfEncoder(std::string_view encoder, std::string_view parameter) {
  constexpr std::string_view kLayer = ".layer.";
  if (const size_t found = parameter.find(kLayer); found != std::string_view::npos) {
    return 1 + std::stoll(std::string(parameter.substr(found + kLayer.size())));
  }
  return parameter.starts_with(encoder) ? 0 : kWithHead;
}

// Removes the decoder's own names: its weight is the word embedding, its bias the head's. If they differ, they stay
// (TextFamily::decoder).
void Untie(NamedWeights& weights, const TransformersNames& names) {
  const std::string weight = names.decoder + ".weight", bias = names.decoder + ".bias", own_bias = names.head + ".bias";
  const at::Tensor words = Find(weights, names.words), decoder = Find(weights, weight);
  const at::Tensor of_head = Find(weights, own_bias), of_decoder = Find(weights, bias);
  const auto differ = [](const at::Tensor& a, const at::Tensor& b) {
    return a.defined() && b.defined() && !a.equal(b);
  };
  if (differ(words, decoder) || differ(of_head, of_decoder)) return;
  // Of two that share their memory, safetensors' save_model keeps one.
  if (!words.defined() && decoder.defined()) weights.emplace_back(names.words, decoder);
  if (!of_head.defined() && of_decoder.defined()) weights.emplace_back(own_bias, of_decoder);
  std::erase_if(weights,
                [&](const auto& item) { return item.first == weight || (item.first == bias && bias != own_bias); });
}

NamedWeights FromTransformers(NamedWeights weights, const TransformersNames& names, const std::vector<Head>& heads,
                              std::vector<std::string>* left_out) {
  const auto is_of_no_model = [&](const std::string& name) {
    const auto has = [&name](const auto& part) { return name.find(part) != std::string::npos; };
    return std::ranges::any_of(kOfNoModel, has) || std::ranges::any_of(names.of_no_model, has);
  };
  LeaveOut(weights, is_of_no_model, left_out);
  const bool has_backbone = AnyBegins(ShapesOf(weights), names.backbone);
  for (auto& [name, tensor] : weights) {
    const auto has = [&name = name](const Head& head) { return head.Has(name); };
    if (!has_backbone && std::ranges::none_of(heads, has)) name.insert(0, names.backbone);
    for (const auto& [old, now] : {std::pair{".gamma", ".weight"}, {".beta", ".bias"}}) {
      if (name.ends_with(old)) name.replace(name.rfind(old), std::string::npos, now);
    }
  }
  Untie(weights, names);
  return weights;
}

// Adds the decoder under its own names. The tensors are shared.
NamedWeights WithDecoder(NamedWeights weights, const TransformersNames& names) {
  const std::string bias = names.decoder + ".bias", own_bias = names.head + ".bias";
  const at::Tensor words = Find(weights, names.words), of_head = Find(weights, own_bias);
  if (!words.defined() || !of_head.defined()) return weights;
  weights.emplace_back(names.decoder + ".weight", words);
  if (bias != own_bias) weights.emplace_back(bias, of_head);
  return weights;
}

}  // namespace

bool HaveEncoder(const WeightShapes& weights, const std::string& backbone) {
  const std::string embeddings = backbone + ".embeddings.";
  return std::ranges::any_of(weights, [&](const auto& item) {
    return item.first.starts_with(embeddings) || item.first.find("." + embeddings) != std::string::npos;
  });
}

bool HaveBareEncoder(const WeightShapes& weights, const std::string& layers) {
  const auto have = [&](const std::string& wrapper) {
    return weights.contains(wrapper + "embeddings.word_embeddings.weight") && AnyBegins(weights, wrapper + layers);
  };
  return have("") || have("module.");
}

std::string DescriptionOf(const std::string& family, int64_t layers, int64_t hidden_size, int64_t heads) {
  return family + " of " + std::to_string(layers) + " layers, " + std::to_string(hidden_size) + " wide, with " +
         std::to_string(heads) + " heads, for text";
}

void UseTransformersNames(const TransformersNames& names, Family& family) {
  family.own_names = [names, heads = family.heads](const NamedWeights& weights, const Model&,
                                                   std::vector<std::string>* left_out) {
    return FromTransformers(weights, names, heads, left_out);
  };
  family.text.decoder = names.decoder;
  family.text.with_tied_decoder = [names](NamedWeights weights) { return WithDecoder(std::move(weights), names); };
}

EncoderOptions Sized(EncoderOptions options, int64_t hidden_size, int64_t layers) {
  options.hidden_size = hidden_size;
  options.layers = layers;
  options.heads = hidden_size / 64;
  options.intermediate_size = 4 * hidden_size;
  return options;
}

Family FamilyOfKind(const BertKind& kind, const std::function<bool(const WeightShapes&)>& fits) {
  Family family = {
      .name = kind.name,
      .input = Input::kText,
      .heads = kind.heads,
      .options = kTextOptions,
      .models = {},
      .config_fields = FieldsOf(kind),
      .layer_of = [encoder = kind.backbone + std::string(".")](
                      std::string_view parameter) { return LayerOfEncoder(encoder, parameter); },
      .text = {.model_type = kind.type,
               .backbone = kind.backbone,
               .classes = kind.classes,
               .word_rows = {kind.word_weights(), std::string(kind.words.module) + ".bias"},
               .unseen_fields = {kind.fields.heads, "pad_token_id", "vocab_size", "max_position_embeddings"}}};
  if (kind.fields.layer_norm_epsilon != nullptr) {
    for (const char* field : {kind.fields.layer_norm_epsilon, "type_vocab_size"})
      family.text.unseen_fields.push_back(field);
  }
  family.text.from_json = [&kind](const nlohmann::json& config, const WeightShapes& weights) {
    return OptionsWith(kind, EncoderFromJson(kind, config), weights);
  };
  family.models.push_back({.name = kind.model,
                           .description = kind.name + " for text, with the shape in --model_config=FILE",
                           .fits = fits});
  for (const auto& [name, shape] : kind.shapes) {
    const std::string description = DescriptionOf(kind.name, shape.layers, shape.hidden_size, shape.heads);
    const auto text = [&kind, own = shape](const WeightShapes& weights) { return OptionsWith(kind, own, weights); };
    family.models.push_back({.name = kind.model + "_" + name, .description = description, .text = text, .fits = fits});
  }
  UseTransformersNames({.backbone = kind.backbone + std::string("."),
                        .words = kind.word_weights(),
                        .decoder = kind.decoder,
                        .head = kind.words.module,
                        .of_no_model = kind.of_no_model},
                       family);
  return family;
}

}  // namespace dtrain::models
