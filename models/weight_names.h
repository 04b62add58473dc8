// Converts weights of text between the names here and those of Hugging Face and fairseq. The names here are Hugging
// Face's without the tied decoder.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain::models {

using NamedWeights = std::vector<std::pair<std::string, at::Tensor>>;
using WeightShapes = std::map<std::string, std::vector<int64_t>>;  // by name

WeightShapes ShapesOf(const NamedWeights& weights);

enum class WeightNaming { kHuggingFace, kFairseq, kUnknown };

// Recognises the naming by the names of encoder and embeddings. Returns kUnknown if neither naming occurs.
WeightNaming NamingOf(const WeightShapes& weights);
WeightNaming NamingOf(const NamedWeights& weights);

// Returns the number of outputs of a head that classifies sequences, in either naming and with any prefix, or 0 if
// there is none, or several of which none is fairseq's default head, `sentence_classification_head`.
int64_t ClassificationHeadOutputs(const WeightShapes& weights);

// Returns whether there is a head that labels tokens.
bool LabelsTokens(const WeightShapes& weights);

// Converts weights to the names that RoBERTa's models have here. They come with Hugging Face's names (with or without
// `roberta.` in front) or fairseq's (0.12's, or the older ones with `decoder.`, `emb_layer_norm` and one matrix for
// query, key and value). fairseq has no token types, so their row becomes 0. fairseq's only classification head, or its
// default one, becomes `classifier`. Names of other tasks' weights (pooler, further heads) and of no weights at all
// (position_ids, version) are appended to `left_out`. Unknown names are kept, and so are several heads without a
// default one. Throws std::invalid_argument if the decoder is not the word embedding.
NamedWeights RobertaWeightsFrom(const NamedWeights& weights, std::vector<std::string>* left_out);

// Keeps of what RobertaWeightsFrom returned only one head, `lm_head` or `classifier` (or none), and appends the names
// of the others to `left_out`. The head itself may be missing, too. But throws std::invalid_argument if the weights
// have a classification head in place of the wanted lm_head, or several of which any might be the wanted classifier.
NamedWeights ForRobertaHead(NamedWeights weights, std::string_view head, std::vector<std::string>* left_out);

// If there is a masked-LM head, adds its decoder, which is tied to the word embedding, under its own names: the result
// has all names of transformers' state_dict. The tensors are shared.
NamedWeights WithTiedDecoder(NamedWeights weights);

// Converts to fairseq's names. The token type's row is added to the rows of the positions, except that of padding. A
// classifier becomes `sentence_classification_head`. fairseq's models always have a masked-LM head: if there is none,
// one that has learned nothing is added (an identity, normalised).
NamedWeights ToFairseq(const NamedWeights& weights, int64_t padding_id);

// How the names of a family in transformers differ from those here.
struct TransformersNames {
  std::string backbone;              // "bert.": what weights of an encoder alone leave out
  std::vector<std::string> modules;  // with which names within the backbone begin
  // The word embedding, the decoder that shares it, and the bias of the decoder under two names; empty: it has one.
  std::string words, decoder_weight, decoder_bias, bias;
  std::vector<std::string> of_other_tasks = {};  // parts of names that no model here has
};

// Converts Hugging Face's weights to the names here, also from the time when LayerNorm's were gamma and beta. Names of
// other tasks' weights are appended to `left_out`, and unknown names kept. Throws std::invalid_argument if the decoder
// is not the word embedding.
NamedWeights FromTransformers(const NamedWeights& weights, const TransformersNames& names,
                              std::vector<std::string>* left_out);

// If there is a head that guesses words, adds its decoder: as WithTiedDecoder.
NamedWeights WithDecoder(NamedWeights weights, const TransformersNames& names);

}  // namespace dtrain::models
