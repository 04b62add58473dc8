#include "trainer/weights/foreign_network.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/shallow_json.h"
#include "data/shown.h"
#include "data/storage.h"
#include "models/registry.h"
#include "trainer/config/flags.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/weights/run_settings.h"

namespace dtrain::weights {
namespace {

// The fields that transformers writes for every model.
constexpr char kFieldsOfTransformers[] = R"({
  "is_decoder": [false], "is_encoder_decoder": [false], "add_cross_attention": [false], "tie_encoder_decoder": [false],
  "cross_attention_hidden_size": [null], "pruned_heads": [null, {}],

  "architectures": null, "transformers_version": null, "torch_dtype": null, "dtype": null, "_name_or_path": null,
  "name_or_path": null, "_commit_hash": null, "exported_by": null, "id2label": null, "label2id": null,
  "num_labels": null, "_num_labels": null, "problem_type": null, "finetuning_task": null,
  "sentence_transformers": null, "sbert_ce_default_activation_function": null, "xla_device": null,
  "task_specific_params": null, "tokenizer_class": null, "prefix": null, "language": null, "tie_word_embeddings": null,
  "attn_implementation": null, "_attn_implementation": null, "_attn_implementation_autoset": null,
  "chunk_size_feed_forward": null, "return_dict": null, "output_hidden_states": null, "output_attentions": null,
  "torchscript": null, "use_bfloat16": null, "tf_legacy_loss": null, "bos_token_id": null, "pad_token_id": null,
  "eos_token_id": null, "eos_token_ids": null, "sep_token_id": null, "cls_token_id": null, "mask_token_id": null,
  "unk_token_id": null, "decoder_start_token_id": null,

  "max_length": null, "min_length": null, "do_sample": null, "early_stopping": null, "num_beams": null,
  "num_beam_groups": null, "temperature": null, "top_k": null, "top_p": null, "typical_p": null,
  "diversity_penalty": null, "repetition_penalty": null, "length_penalty": null, "no_repeat_ngram_size": null,
  "encoder_no_repeat_ngram_size": null, "bad_words_ids": null, "num_return_sequences": null, "output_scores": null,
  "return_dict_in_generate": null, "forced_bos_token_id": null, "forced_eos_token_id": null,
  "remove_invalid_values": null, "exponential_decay_length_penalty": null, "suppress_tokens": null,
  "begin_suppress_tokens": null
})";

constexpr char kModelType[] = "model_type", kArchitecture[] = "architecture";  // of transformers, of timm
// Of image models: null if all norms have it; else what the last one alone may have, with the others' first.
constexpr char kNormEpsilon[] = "layer_norm_eps";

// Beside the architecture; the second paragraph is of older files, the last one of transformers' models of timm.
constexpr char kFieldsOfTimm[] = R"({
  "model_args": [null, {}, {"dynamic_img_size": true}],
  "num_classes": null, "num_features": null, "pretrained_cfg": null, "exported_by": null, "problem_type": null,

  "label_names": null, "label_descriptions": null, "input_size": null, "fixed_input_size": null,
  "test_input_size": null, "pool_size": null, "crop_pct": null, "crop_mode": null, "test_crop_pct": null,
  "interpolation": null, "mean": null, "std": null, "first_conv": null, "classifier": null, "url": null, "tag": null,
  "hf_hub_id": null, "custom_load": null, "license": null,

  "model_type": ["timm_wrapper"], "do_pooling": [true], "architectures": null, "initializer_range": null,
  "dtype": null, "torch_dtype": null, "transformers_version": null, "_name_or_path": null
})";

std::string ModelIn(const checkpoint::Metadata& metadata) {
  const auto found = metadata.find(kSettings);
  if (found == metadata.end()) return "";
  return TextIn(nlohmann::json::parse(found->second, nullptr, /*allow_exceptions=*/false), "model");
}

// Other types are of files whose weights another program has quantised, or are damaged.
void RequireFloats(const std::string& file, const checkpoint::NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.is_floating_point() || !(name.ends_with(".weight") || name.ends_with(".bias"))) continue;
    throw UsageError(Shown(name, 200) + " in " + file + " is of the type " + c10::toString(tensor.scalar_type()) +
                         ", which is no floating-point number",
                     "name a file whose weights are float32, float16, bfloat16 or float64");
  }
}

// Returns the rows for what a config.json of Hugging Face says of the network.
nlohmann::json NetworkFields(const std::string& model) {
  auto fields = nlohmann::json::parse(models::FamilyOf(model).config_fields);
  fields.update(nlohmann::json::parse(models::FindModel(model)->config_fields));
  return fields;
}

}  // namespace

nlohmann::ordered_json HuggingFaceConfig(const models::Model& model) {
  nlohmann::ordered_json config = {{"architectures", {model.hugging_face_class}}};
  const nlohmann::json fields = NetworkFields(model.name);
  if (fields.contains("image_size")) config["image_size"] = model.image_size;
  for (const auto& [field, values] : fields.items()) {
    if (values.is_array() && !values.front().is_null()) config[field] = values.front();
  }
  const auto found = fields.find(kNormEpsilon);
  if (found == fields.end()) return config;
  if (!found->is_null() && found->front() != model.norm_epsilon) {
    throw UsageError(
        "transformers' model has norms with an epsilon of its own, not --bn_eps=" + config::ToText(model.norm_epsilon),
        "export to a file, as --output=model.safetensors, which is read here");
  }
  config[kNormEpsilon] = model.norm_epsilon;
  return config;
}

void RequireKnownConfig(const nlohmann::json& config, const std::string& source, const std::string& model) {
  const bool is_timms = config.is_object() && config.contains(kArchitecture);
  auto fields = nlohmann::json::parse(is_timms ? kFieldsOfTimm : kFieldsOfTransformers);
  if (is_timms) {
    fields[kArchitecture] = {model};
    fields["global_pool"] = {models::FindModel(model)->timm_pool};
  } else {
    fields.update(NetworkFields(model));
  }
  try {
    const bool is_typed = config.is_object() && config.contains(kModelType);  // which says more than a field of another
    if (is_typed) RequireKnownFields({{kModelType, config[kModelType]}}, fields);
    RequireKnownFields(config, fields);
  } catch (const std::invalid_argument& error) {
    throw UsageError(source + ": " + error.what(),
                     "it describes another network than --model=" + model +
                         ": check --model, or take a field that changes nothing out of the file");
  }
}

void RequireSameModel(const std::string& where, const std::string& trained, const std::string& model) {
  const models::Model* given = models::FindModel(model);
  for (const models::Family& family : models::Families()) {
    const auto unlike = given == nullptr || family.unlike == nullptr ? std::nullopt : family.unlike(trained, *given);
    if (unlike) throw UsageError(where + " is of " + unlike->how, "use --model=" + unlike->instead);
  }
}

const models::Model* AsTrained(const models::Model* model, const models::WeightShapes& shapes,
                               const WeightsPlace& place) {
  if (model == nullptr) return nullptr;
  const models::Family& family = models::FamilyOf(model->name);
  if (family.trained_as == nullptr) return model;
  const auto unlike = family.unlike(family.trained_as(shapes, place.name()), *model);
  const models::Model* other = unlike ? models::FindModel(unlike->instead) : nullptr;
  return other == nullptr ? model : other;
}

void RequireSameNetwork(const WeightsPlace& place, const checkpoint::SafetensorsContent& content,
                        const std::string& model) {
  RequireFloats(place.file, content.tensors);
  const auto config = place.model_config.empty() ? nlohmann::json() : ParseShallow(place.model_config);
  const models::WeightShapes shapes = models::ShapesOf(content.tensors);
  RequireSameModel(place.file, ModelIn(content.metadata), model);
  RequireSameModel(place.file, TextIn(config, kArchitecture), model);
  RequireSameModel(place.file, place.trained_as, model);
  const bool is_known = models::FindModel(place.trained_as) != nullptr || models::ReadsText(model) ||
                        place.trained_as.find(model) != std::string::npos ||  // swsl_resnet50
                        models::NamingIn(shapes) == "torchvision";
  if (!place.trained_as.empty() && !is_known) {
    report::LogWarning(place.file + " says that its weights are of " + Shown(place.trained_as) +
                       ", which is not known here: --model=" + model + " may compute something else with them");
  }
  for (const models::Family& family : models::Families()) {
    if (family.trained_as != nullptr) RequireSameModel(place.file, family.trained_as(shapes, place.name()), model);
  }
  if (!config.is_null()) RequireKnownConfig(config, place.config_file, model);
}

std::optional<double> NormEpsilonIn(const nlohmann::json& config, const models::Model& model) {
  if (!config.is_object()) return std::nullopt;
  const nlohmann::json said = config.value(kNormEpsilon, nlohmann::json());
  const nlohmann::json fields = NetworkFields(model.name);
  const bool is_of_all = fields.contains(kNormEpsilon) && fields[kNormEpsilon].is_null();
  return is_of_all && said.is_number() && said != model.norm_epsilon ? std::optional(said.get<double>()) : std::nullopt;
}

void RequireImageSize(const config::Config& config, int64_t height, int64_t width) {
  const models::Model& model = *models::FindModel(config.model.name);
  const int64_t multiple = model.size_multiple, least = model.least_size;
  if (std::min(height, width) < least) {
    throw UsageError("--model=" + model.name + " leaves nothing of images of less than " + std::to_string(least) +
                         " pixels a side, such as these of " + std::to_string(width) + "×" + std::to_string(height),
                     "raise --image_size");
  }
  if (height % multiple != 0 || width % multiple != 0) {
    throw UsageError("--model=" + model.name + " cuts images into patches of " + std::to_string(multiple) +
                         " pixels a side, which do not fill images of " + std::to_string(width) + "×" +
                         std::to_string(height),
                     "let sizes of images be multiples of " + std::to_string(multiple) + ", such as " +
                         std::to_string(std::max(multiple, width / multiple * multiple)));
  }
  const std::string& weights = config.model.init_weights;
  if (!model.pads_as_hugging_face || !data::Exists(weights)) return;
  if (model.pads_as_hugging_face(height) && model.pads_as_hugging_face(width)) return;
  const WeightsHeader header = ReadWeightsHeader(FindWeights(weights).file);
  if (models::NamingIn(header.shapes) != "hf") return;
  const std::string native = std::to_string(model.image_size);
  throw UsageError("Hugging Face's model in " + weights + " pads images as for " + native + " pixels, those of " +
                       std::to_string(width) + "×" + std::to_string(height) + " other than --model=" + model.name,
                   "use --image_size=" + native +
                       "; or take timm's model, which pads every size as TensorFlow does, from what --mode=export "
                       "makes of these weights");
}

}  // namespace dtrain::weights
