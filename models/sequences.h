// Token sequences of unequal length as one flat list of tokens, and attention within each sequence alone.
// Letters in names: N sequences, T tokens of the longest, S tokens in the list, H features.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace dtrain::models {

// Padded: all sequences have the list's N·T places, and `attended` says which hold tokens. Packed: the list has no
// padding, sequence follows sequence.
struct Sequences {
  at::Tensor ids;        // int64, S
  at::Tensor positions;  // int64, S: rows of the position embeddings

  int64_t padded_length = 0;  // T; 0: packed
  at::Tensor attended;        // padded: bool N×T; undefined: all are tokens

  std::vector<int64_t> lengths;  // packed: tokens of each sequence, ≥ 1
  at::Tensor offsets;            // packed: int32, N + 1, where each sequence begins, and the end

  bool packed() const { return padded_length == 0; }
  Sequences To(at::Device device) const;
};

// RoBERTa's: tokens that are not padding count from padding_id + 1, padding has padding_id. N×T.
at::Tensor PositionsOf(const at::Tensor& ids_NT, int64_t padding_id);

// `attended_NT`: bool, or undefined where all places are tokens.
Sequences Padded(const at::Tensor& ids_NT, const at::Tensor& attended_NT, int64_t padding_id);

// Host tensors. `kept`, where not null, becomes the places in N·T that the packed list holds, in order.
Sequences Packed(const at::Tensor& ids_NT, const at::Tensor& attended_NT, int64_t padding_id,
                 at::Tensor* kept = nullptr);

// softmax(q·kᵀ / √d)·v for each head of d features and each sequence by itself; q, k, v and the result are S×H. Draws
// from the device's generator where dropout > 0.
at::Tensor Attend(const at::Tensor& q_SH, const at::Tensor& k_SH, const at::Tensor& v_SH, int64_t heads,
                  const Sequences& sequences, double dropout);

}  // namespace dtrain::models
