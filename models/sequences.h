// Token sequences of unequal length as one flat list of tokens, and attention within each sequence. Letters in names: N
// sequences, T tokens of the longest, S tokens in the list, H features.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "models/text_options.h"

namespace dtrain::models {

// If padded, the list has N·T places, and `attended` says which of them hold tokens. If packed, the list has no padding
// and the sequences follow each other.
struct Sequences {
  at::Tensor ids;          // int64, S
  at::Tensor positions;    // int64, S; rows of the position embeddings
  at::Tensor token_types;  // int64, S; undefined: all are 0

  int64_t padded_length = 0;  // T; 0 if packed
  at::Tensor attended;        // padded: bool N×T; undefined if all places hold tokens

  std::vector<int64_t> lengths;  // packed: the number of tokens of each sequence, ≥ 1
  at::Tensor offsets;            // packed: int32, N + 1; the beginning of each sequence, and the end of the last
  int64_t fillers = 0;           // packed: how many of the sequences, the last ones, FillUp has added
  int64_t most_tokens = 0;       // packed: at least the length of the longest sequence

  bool packed() const { return padded_length == 0; }
  Sequences To(at::Device device) const;
};

// Returns the positions, N×T. If first_position is 0, these are the places in the rows (the last position for those
// behind it); else tokens that are not padding count from first_position, and padding has the one before it.
at::Tensor PositionsOf(const at::Tensor& ids_NT, const TextShape& shape);

// Makes padded sequences of int64 ids. `attended_NT` is bool, or undefined if all places hold tokens. `types_NT` are
// int64 token types, or undefined.
Sequences Padded(const at::Tensor& ids_NT, const at::Tensor& attended_NT, const TextShape& shape,
                 const at::Tensor& types_NT = {});

// Makes packed sequences of tensors on the host. If `kept` is not null, it receives the places in N·T that the packed
// list holds, in order (int64).
Sequences Packed(const at::Tensor& ids_NT, const at::Tensor& attended_NT, const TextShape& shape,
                 at::Tensor* kept = nullptr, const at::Tensor& types_NT = {});

// Appends sequences of padding to packed ones on the host, so that the list has FilledLength(S, most_tokens) tokens and
// steps of about as many tokens have the same shapes. No sequence is longer than `most_tokens`, which becomes
// Sequences::most_tokens. What the model computes for other sequences, and its gradients if the loss does not depend on
// the fillers, are as without them.
void FillUp(Sequences& packed, int64_t most_tokens, const TextShape& shape);

// Returns the place of the first token of each sequence that is not a filler, on the device.
at::Tensor FirstTokens(const Sequences& sequences);

// Returns the mean over the tokens of each sequence that is not a filler, S×H → N×H. Never waits for a device.
at::Tensor MeanOfTokens(const at::Tensor& x_SH, const Sequences& sequences);

// Returns the length of a list of `tokens` tokens when it is filled up. The lengths that occur are 1/16 to 1/8 of their
// size apart.
int64_t FilledLength(int64_t tokens, int64_t most_tokens);

// Returns whether LibTorch's flash attention takes packed sequences of this type, with heads of so many features, on
// this device: GPUs since Ampere. Its memory-efficient attention takes all that we have, with the same results but for
// rounding.
bool HasFlashAttention(at::ScalarType type, int64_t features, at::Device device);

// Attend for packed sequences on a GPU. Only flash attention takes a window.
at::Tensor AttendPackedOnGpu(const at::Tensor& q_SH, const at::Tensor& k_SH, const at::Tensor& v_SH, int64_t heads,
                             const Sequences& sequences, double dropout, bool flash,
                             const std::optional<int64_t>& window = {});

// Returns softmax(q·kᵀ / √d)·v for each head of d features and each sequence separately; q, k, v and the result are
// S×H. With a window, a token attends to those that are at most so many places away. Draws from the device's generator
// if dropout > 0.
at::Tensor Attend(const at::Tensor& q_SH, const at::Tensor& k_SH, const at::Tensor& v_SH, int64_t heads,
                  const Sequences& sequences, double dropout, const std::optional<int64_t>& window = {});

}  // namespace dtrain::models
