// RoBERTa's weights as Hugging Face and fairseq name them. Inside, names are Hugging Face's without the tied decoder.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dtrain::models {

using NamedWeights = std::vector<std::pair<std::string, at::Tensor>>;

enum class WeightNaming { kHuggingFace, kFairseq, kUnknown };

WeightNaming NamingOf(const NamedWeights& weights);

// Weights with Hugging Face's names (with or without `roberta.` in front) or fairseq's (0.12's, and the older ones with
// `decoder.`, `emb_layer_norm` and one matrix for query, key and value), as RobertaForMaskedLM has them here. fairseq
// has no token types: their row becomes 0. What belongs to other tasks (pooler, classification heads) or to no weight
// (position_ids, version) goes to `left_out`, by name. Other names pass as they are. Throws std::invalid_argument where
// the decoder is not the word embedding.
NamedWeights RobertaWeightsFrom(const NamedWeights& weights, std::vector<std::string>* left_out);

// With the decoder that is tied to the word embedding under its own names, too: all that RobertaForMaskedLM's
// state_dict has. The tensors are shared.
NamedWeights WithTiedDecoder(NamedWeights weights);

// With fairseq's names. The row of the token type is folded into those of the positions, all but that of padding.
NamedWeights ToFairseq(const NamedWeights& weights, int64_t padding_id);

}  // namespace dtrain::models
