// One table of pairs of names serves both directions; everything beyond a change of name is done separately.
#include "models/weight_names.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>
#include <string_view>

namespace dtrain::models {
namespace {

constexpr const char* kWords = "roberta.embeddings.word_embeddings.weight";
constexpr const char* kPositions = "roberta.embeddings.position_embeddings.weight";
constexpr const char* kTokenTypes = "roberta.embeddings.token_type_embeddings.weight";
constexpr std::string_view kMaskedLmHead = "lm_head.";
constexpr const char* kHeadBias = "lm_head.bias";
constexpr const char* kDecoderWeight = "lm_head.decoder.weight";
constexpr const char* kDecoderBias = "lm_head.decoder.bias";
constexpr std::string_view kClassifier = "classifier.";
constexpr std::string_view kFairseqHeads = "classification_heads.";
constexpr std::string_view kFairseqClassifier = "classification_heads.sentence_classification_head.";
constexpr std::string_view kLayer = "roberta.encoder.layer.";
constexpr std::string_view kFairseqEncoder = "encoder.sentence_encoder.";
constexpr std::string_view kFairseqLayer = "encoder.sentence_encoder.layers.";

struct Pair {
  std::string_view hugging_face, fairseq;
};

// Beginnings of names outside the layers. If one is a prefix of another, the longer one comes first.
constexpr std::array kOutside = {
    Pair{"roberta.embeddings.word_embeddings.", "encoder.sentence_encoder.embed_tokens."},
    Pair{"roberta.embeddings.position_embeddings.", "encoder.sentence_encoder.embed_positions."},
    Pair{"roberta.embeddings.LayerNorm.", "encoder.sentence_encoder.layernorm_embedding."},
    Pair{"lm_head.dense.", "encoder.lm_head.dense."},
    Pair{"lm_head.layer_norm.", "encoder.lm_head.layer_norm."},
    Pair{"lm_head.decoder.weight", "encoder.lm_head.weight"},
    Pair{"lm_head.bias", "encoder.lm_head.bias"},
    Pair{"classifier.", "classification_heads.sentence_classification_head."},
};

// Beginnings of names inside a layer.
constexpr std::array kInside = {
    Pair{"attention.self.query.", "self_attn.q_proj."},
    Pair{"attention.self.key.", "self_attn.k_proj."},
    Pair{"attention.self.value.", "self_attn.v_proj."},
    Pair{"attention.output.dense.", "self_attn.out_proj."},
    Pair{"attention.output.LayerNorm.", "self_attn_layer_norm."},
    Pair{"intermediate.dense.", "fc1."},
    Pair{"output.dense.", "fc2."},
    Pair{"output.LayerNorm.", "final_layer_norm."},
};

bool BeginsWith(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Returns `name` with its beginning replaced by the table, or an empty string if no row fits.
template <typename Table>
std::string Exchanged(std::string_view name, const Table& table, std::string_view Pair::*from,
                      std::string_view Pair::*to) {
  for (const Pair& pair : table) {
    if (BeginsWith(name, pair.*from)) return std::string(pair.*to) + std::string(name.substr((pair.*from).size()));
  }
  return "";
}

// "PREFIX7.REST" → "7." and "REST".
std::pair<std::string, std::string_view> SplitLayer(std::string_view name, std::string_view prefix) {
  const std::string_view rest = name.substr(prefix.size());
  const size_t dot = std::min(rest.find('.'), rest.size() - 1);
  return {std::string(rest.substr(0, dot + 1)), rest.substr(dot + 1)};
}

// Returns the newer name of a weight that older versions of fairseq called otherwise.
std::string Newer(std::string name) {
  if (BeginsWith(name, "decoder.sentence_encoder.") || BeginsWith(name, "decoder.lm_head.")) {
    name.replace(0, std::string_view("decoder").size(), "encoder");
  }
  constexpr std::string_view kOldNorm = "encoder.sentence_encoder.emb_layer_norm.";
  if (BeginsWith(name, kOldNorm)) {
    name.replace(0, kOldNorm.size(), "encoder.sentence_encoder.layernorm_embedding.");
  }
  return name;
}

std::string FromFairseqName(const std::string& name) {
  if (!BeginsWith(name, kFairseqLayer)) return Exchanged(name, kOutside, &Pair::fairseq, &Pair::hugging_face);
  const auto [layer, rest] = SplitLayer(name, kFairseqLayer);
  const std::string inside = Exchanged(rest, kInside, &Pair::fairseq, &Pair::hugging_face);
  return inside.empty() ? "" : std::string(kLayer) + layer + inside;
}

std::string ToFairseqName(const std::string& name) {
  if (!BeginsWith(name, kLayer)) return Exchanged(name, kOutside, &Pair::hugging_face, &Pair::fairseq);
  const auto [layer, rest] = SplitLayer(name, kLayer);
  const std::string inside = Exchanged(rest, kInside, &Pair::hugging_face, &Pair::fairseq);
  return inside.empty() ? "" : std::string(kFairseqLayer) + layer + inside;
}

// Splits `self_attn.in_proj_weight` and `in_proj_bias`, which hold query, key and value in one.
NamedWeights SplitProjections(const NamedWeights& weights) {
  NamedWeights split;
  for (const auto& [name, tensor] : weights) {
    const size_t at = name.find("self_attn.in_proj_");
    if (at == std::string::npos || tensor.dim() == 0 || tensor.size(0) % 3 != 0) {
      split.emplace_back(name, tensor);
      continue;
    }
    const std::string front = name.substr(0, at) + "self_attn.";
    const std::string end = name.substr(at + std::string_view("self_attn.in_proj_").size());
    const std::vector<at::Tensor> parts = tensor.chunk(3);
    const std::array<const char*, 3> names = {"q_proj.", "k_proj.", "v_proj."};
    for (size_t i = 0; i < 3; ++i) split.emplace_back(front + names[i] + end, parts[i].contiguous());
  }
  return split;
}

// Returns "classification_heads.NAME." for the name of a weight in one of fairseq's heads, else an empty string.
std::string_view FairseqHeadOf(std::string_view name) {
  if (!BeginsWith(name, kFairseqHeads)) return "";
  const size_t dot = name.find('.', kFairseqHeads.size());
  return dot == std::string_view::npos ? "" : name.substr(0, dot + 1);
}

// Returns the head that classifies sequences: fairseq's default one or the only one. Empty if there is none, or none of
// several is the default.
std::string ChosenHead(const std::set<std::string, std::less<>>& heads) {
  if (heads.contains(kFairseqClassifier)) return std::string(kFairseqClassifier);
  return heads.size() == 1 ? *heads.begin() : "";
}

// Gives the chosen one of fairseq's heads the default name and leaves the others out.
NamedWeights WithOneHead(const NamedWeights& weights, std::vector<std::string>* left_out) {
  std::set<std::string, std::less<>> heads;
  for (const auto& [name, tensor] : weights) {
    if (const auto head = FairseqHeadOf(name); !head.empty()) heads.emplace(head);
  }
  const std::string chosen = ChosenHead(heads);
  if (chosen.empty()) return weights;
  NamedWeights all;
  for (const auto& [name, tensor] : weights) {
    const std::string_view head = FairseqHeadOf(name);
    if (head.empty()) {
      all.emplace_back(name, tensor);
    } else if (head == chosen) {
      all.emplace_back(std::string(kFairseqClassifier) + name.substr(head.size()), tensor);
    } else {
      left_out->push_back(name);
    }
  }
  return all;
}

// The head that labels tokens is one layer.
bool IsTokenHead(std::string_view name) { return name == "classifier.weight" || name.ends_with(".classifier.weight"); }

bool IsOfAnotherTask(std::string_view name) {
  for (const std::string_view part : {"pooler.", "position_ids", "token_type_ids"})
    if (Contains(name, part)) return true;
  return BeginsWith(name, kFairseqEncoder) && (Contains(name, ".version") || Contains(name, "_float_tensor"));
}

at::Tensor* Find(NamedWeights& weights, std::string_view name) {
  const auto found =
      std::find_if(weights.begin(), weights.end(), [name](const auto& item) { return item.first == name; });
  return found == weights.end() ? nullptr : &found->second;
}

void Erase(NamedWeights& weights, std::string_view name) {
  std::erase_if(weights, [name](const auto& item) { return item.first == name; });
}

// Removes the decoder's own names: its weight is the word embedding, its bias the head's. Throws if its weight differs.
void Untie(NamedWeights& weights, const TransformersNames& names) {
  const at::Tensor *words = Find(weights, names.words), *decoder = Find(weights, names.decoder_weight);
  if (words != nullptr && decoder != nullptr && !words->equal(*decoder)) {
    throw std::invalid_argument("its decoder is not the word embedding, as it must be here");
  }
  if (Find(weights, names.bias) == nullptr) {
    if (const at::Tensor* bias = Find(weights, names.decoder_bias)) weights.emplace_back(names.bias, *bias);
  }
  Erase(weights, names.decoder_weight);
  Erase(weights, names.decoder_bias);
}

const TransformersNames& RobertasNames() {
  static const TransformersNames names = {.backbone = "roberta.",
                                          .modules = {"embeddings.", "encoder.layer."},
                                          .words = kWords,
                                          .decoder_weight = kDecoderWeight,
                                          .decoder_bias = kDecoderBias,
                                          .bias = kHeadBias};
  return names;
}

// Adds a masked-LM head that has learned nothing.
void AddUntrainedHead(NamedWeights& weights) {
  const at::Tensor* found = Find(weights, kWords);
  if (found == nullptr || found->dim() != 2) return;
  const at::Tensor words_VH = *found;
  const auto type = words_VH.options();
  const int64_t words = words_VH.size(0), hidden = words_VH.size(1);
  for (const auto& [name, tensor] : NamedWeights{{"dense.weight", at::eye(hidden, type)},
                                                 {"dense.bias", at::zeros(hidden, type)},
                                                 {"layer_norm.weight", at::ones(hidden, type)},
                                                 {"layer_norm.bias", at::zeros(hidden, type)},
                                                 {"bias", at::zeros(words, type)}}) {
    weights.emplace_back(std::string(kMaskedLmHead) + name, tensor);
  }
}

}  // namespace

WeightShapes ShapesOf(const NamedWeights& weights) {
  WeightShapes shapes;
  for (const auto& [name, tensor] : weights) shapes[name] = tensor.sizes().vec();
  return shapes;
}

WeightNaming NamingOf(const WeightShapes& weights) {
  for (const auto& [name, shape] : weights) {
    if (Contains(name, "sentence_encoder.")) return WeightNaming::kFairseq;
    if (Contains(name, "embeddings.word_embeddings.")) return WeightNaming::kHuggingFace;
  }
  return WeightNaming::kUnknown;
}

WeightNaming NamingOf(const NamedWeights& weights) { return NamingOf(ShapesOf(weights)); }

bool LabelsTokens(const WeightShapes& weights) {
  return std::ranges::any_of(weights, [](const auto& item) { return IsTokenHead(item.first); });
}

int64_t ClassificationHeadOutputs(const WeightShapes& weights) {
  constexpr std::string_view kLast = "out_proj.weight";
  std::map<std::string, int64_t, std::less<>> outputs;  // by the head's name
  for (const auto& [name, shape] : weights) {
    if (IsTokenHead(name) && shape.size() == 2) return shape[0];
    if (!name.ends_with(kLast) || shape.size() != 2) continue;
    const std::string_view head = std::string_view(name).substr(0, name.size() - kLast.size());
    const size_t fairseq = head.find(kFairseqHeads);
    if (fairseq != std::string_view::npos) {
      outputs[std::string(head.substr(fairseq))] = shape[0];
    } else if (head == kClassifier || head.ends_with(".classifier.")) {
      outputs[std::string(kClassifier)] = shape[0];
    }
  }
  std::set<std::string, std::less<>> heads;
  for (const auto& [head, count] : outputs) heads.insert(head);
  const std::string chosen = ChosenHead(heads);
  return chosen.empty() ? 0 : outputs[chosen];
}

NamedWeights RobertaWeightsFrom(const NamedWeights& weights, std::vector<std::string>* left_out) {
  const bool fairseq = NamingOf(weights) == WeightNaming::kFairseq;
  NamedWeights renamed;
  for (const auto& [original, tensor] : fairseq ? WithOneHead(SplitProjections(weights), left_out) : weights) {
    std::string name = fairseq ? Newer(original) : original;
    if (IsOfAnotherTask(name)) {
      left_out->push_back(original);
      continue;
    }
    if (fairseq) {
      if (const std::string ours = FromFairseqName(name); !ours.empty()) name = ours;
    } else if (BeginsWith(name, "embeddings.") || BeginsWith(name, "encoder.layer.")) {
      name = "roberta." + name;
    }
    renamed.emplace_back(name, tensor);
  }
  const at::Tensor* positions = Find(renamed, kPositions);
  if (fairseq && positions != nullptr) {
    renamed.emplace_back(kTokenTypes, at::zeros({1, positions->size(-1)}, positions->options()));
  }
  Untie(renamed, RobertasNames());
  return renamed;
}

NamedWeights ForRobertaHead(NamedWeights weights, std::string_view head, std::vector<std::string>* left_out) {
  const bool wants_words = std::string(head) + "." == kMaskedLmHead;
  const auto is_of_masked_lm = [](const auto& item) { return BeginsWith(item.first, kMaskedLmHead); };
  const auto is_of_classifier = [](const auto& item) {
    return BeginsWith(item.first, kClassifier) || BeginsWith(item.first, kFairseqHeads);
  };
  std::set<std::string_view> heads;  // fairseq's, if it was not clear which one to take
  for (const auto& [name, tensor] : weights) {
    if (const auto found = FairseqHeadOf(name); !found.empty()) heads.insert(found);
  }
  if (!head.empty() && !wants_words && heads.size() > 1) {
    std::string names;
    for (const std::string_view name : heads) names += (names.empty() ? "" : ", ") + std::string(name);
    throw std::invalid_argument("it has several classification heads, of which one should be called " +
                                std::string(kFairseqClassifier) + ": " + names);
  }
  if (wants_words && std::ranges::any_of(weights, is_of_classifier) && std::ranges::none_of(weights, is_of_masked_lm)) {
    throw std::invalid_argument("it has a classification head and no masked-LM head");
  }
  std::erase_if(weights, [&](const auto& item) {
    const bool is_of_another =
        (wants_words || head.empty() ? is_of_classifier(item) : false) || (!wants_words && is_of_masked_lm(item));
    if (is_of_another) left_out->push_back(item.first);
    return is_of_another;
  });
  return weights;
}

NamedWeights FromTransformers(const NamedWeights& weights, const TransformersNames& names,
                              std::vector<std::string>* left_out) {
  NamedWeights renamed;
  for (const auto& [original, tensor] : weights) {
    if (std::ranges::any_of(names.of_other_tasks, [&](const auto& part) { return Contains(original, part); })) {
      left_out->push_back(original);
      continue;
    }
    const auto begins = [&](const auto& module) { return BeginsWith(original, module); };
    std::string name = (std::ranges::any_of(names.modules, begins) ? names.backbone : "") + original;
    for (const auto& [old, now] : {Pair{".gamma", ".weight"}, Pair{".beta", ".bias"}}) {
      if (name.ends_with(old)) name = name.substr(0, name.size() - old.size()) + std::string(now);
    }
    renamed.emplace_back(name, tensor);
  }
  Untie(renamed, names);
  return renamed;
}

NamedWeights WithDecoder(NamedWeights weights, const TransformersNames& names) {
  const at::Tensor *words = Find(weights, names.words), *bias = Find(weights, names.bias);
  if (words == nullptr || bias == nullptr) return weights;
  NamedWeights tied = {{names.decoder_weight, *words}};
  if (!names.decoder_bias.empty()) tied.emplace_back(names.decoder_bias, *bias);
  weights.insert(weights.end(), tied.begin(), tied.end());
  return weights;
}

NamedWeights WithTiedDecoder(NamedWeights weights) { return WithDecoder(std::move(weights), RobertasNames()); }

NamedWeights ToFairseq(const NamedWeights& weights, int64_t padding_id) {
  NamedWeights all = weights;
  const at::Tensor* types = Find(all, kTokenTypes);
  at::Tensor* positions = Find(all, kPositions);
  if (types != nullptr && positions != nullptr) {
    at::Tensor folded = *positions + types->slice(0, 0, 1);
    folded[padding_id].copy_((*positions)[padding_id]);
    *positions = folded;
    Erase(all, kTokenTypes);
  }
  Erase(all, kDecoderBias);
  if (Find(all, kHeadBias) == nullptr) AddUntrainedHead(all);
  if (const at::Tensor* words = Find(all, kWords); words != nullptr && Find(all, kDecoderWeight) == nullptr) {
    all.emplace_back(kDecoderWeight, *words);
  }
  for (auto& [name, tensor] : all) {
    if (const std::string theirs = ToFairseqName(name); !theirs.empty()) name = theirs;
  }
  return all;
}

}  // namespace dtrain::models
