// Converts RoBERTa's weights between the names of Hugging Face and of fairseq. The names here are Hugging Face's
// without the tied decoder.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dtrain::models {

using NamedWeights = std::vector<std::pair<std::string, at::Tensor>>;

enum class WeightNaming { kHuggingFace, kFairseq, kUnknown };

// Recognises the naming by the names of encoder and embeddings. Returns kUnknown if neither naming occurs.
WeightNaming NamingOf(const NamedWeights& weights);

// Converts weights to the names that RobertaForMaskedLM has here. They come with Hugging Face's names (with or without
// `roberta.` in front) or fairseq's (0.12's, or the older ones with `decoder.`, `emb_layer_norm` and one matrix for
// query, key and value). fairseq has no token types, so their row becomes 0. Names of other tasks' weights (pooler,
// classification heads) and of no weights at all (position_ids, version) are appended to `left_out`. Unknown names are
// kept. Throws std::invalid_argument if the decoder is not the word embedding.
NamedWeights RobertaWeightsFrom(const NamedWeights& weights, std::vector<std::string>* left_out);

// Adds the decoder, which is tied to the word embedding, under its own names: the result has all names of
// RobertaForMaskedLM's state_dict. The tensors are shared.
NamedWeights WithTiedDecoder(NamedWeights weights);

// Converts to fairseq's names. The token type's row is added to the rows of the positions, except that of padding.
NamedWeights ToFairseq(const NamedWeights& weights, int64_t padding_id);

}  // namespace dtrain::models
