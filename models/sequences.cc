// Padded sequences go through scaled_dot_product_attention, which picks a fused kernel. Packed sequences are processed
// one by one on a CPU, whose kernel uses all cores for each, and in one call on a GPU, whose kernels take offsets.
#include "models/sequences.h"

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "models/cpu_operations.h"

namespace dtrain::models {
namespace {

constexpr int64_t kLeastGranularity = 8;  // of the lengths of lists that are filled up

// The filled lengths of about `tokens` tokens are multiples of this.
int64_t GranularityOf(int64_t tokens) {
  int64_t granularity = kLeastGranularity;
  while (granularity < tokens / 16) granularity *= 2;
  return granularity;
}

int64_t RoundUp(int64_t number, int64_t multiple) { return (number + multiple - 1) / multiple * multiple; }

// Returns a number of fillers that depends on the granularity alone, so that it is the same for all lists of a length.
// They share less than `granularity` tokens and one for each, and so none has more than `most_tokens`.
int64_t FillersOf(int64_t granularity, int64_t most_tokens) {
  return 2 * RoundUp(granularity, most_tokens) / most_tokens;
}

at::Tensor OffsetsOf(const std::vector<int64_t>& lengths) {
  return at::cat({at::zeros({1}, at::kLong), at::tensor(lengths, at::kLong).cumsum(0)}).to(at::kInt);
}

// S×H → N×heads×T×d.
at::Tensor ByHead(const at::Tensor& x_SH, int64_t heads, int64_t length) {
  return x_SH.view({-1, length, heads, x_SH.size(1) / heads}).transpose(1, 2);
}

// N×heads×T×d → S×H.
at::Tensor Flat(const at::Tensor& y) { return y.transpose(1, 2).reshape({-1, y.size(1) * y.size(3)}); }

// Returns which of `keys` places from `first_key` on are at most `window` from each of `queries` places from
// `first_query` on: bool, queries×keys.
at::Tensor Near(int64_t first_query, int64_t queries, int64_t first_key, int64_t keys, int64_t window,
                at::Device device) {
  const auto places = [&](int64_t first, int64_t count) { return at::arange(first, first + count, device); };
  return (places(first_query, queries).unsqueeze(1) - places(first_key, keys)).abs().le(window);
}

// Returns scaled_dot_product_attention's result. With dropout, ATen has no fused kernel on a CPU.
at::Tensor AttendTo(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const std::optional<at::Tensor>& mask, double dropout) {
  if (!q.is_cpu() || dropout == 0) return at::scaled_dot_product_attention(q, k, v, mask, dropout);
  at::Tensor scores = at::matmul(q * (1 / std::sqrt(static_cast<double>(q.size(-1)))), k.transpose(-2, -1));
  if (mask) scores = scores.masked_fill(mask->logical_not(), -std::numeric_limits<double>::infinity());
  const at::Tensor weights = mask ? at::_safe_softmax(scores, -1) : scores.softmax(-1);
  return at::matmul(Dropout(weights, dropout, /*is_training=*/true), v);
}

at::Tensor AttendPadded(const at::Tensor& q_SH, const at::Tensor& k_SH, const at::Tensor& v_SH, int64_t heads,
                        const Sequences& sequences, double dropout, const std::optional<int64_t>& window) {
  const int64_t length = sequences.padded_length;
  std::optional<at::Tensor> mask;
  if (sequences.attended.defined()) mask = sequences.attended.view({-1, 1, 1, length});
  if (window && *window < length - 1) {
    const at::Tensor near = Near(0, length, 0, length, *window, q_SH.device());
    // Padding far from all tokens attends to itself, since attention to nothing is undefined.
    mask = mask ? near.logical_and(*mask).logical_or(Near(0, length, 0, length, 0, q_SH.device())) : near;
  }
  return Flat(
      AttendTo(ByHead(q_SH, heads, length), ByHead(k_SH, heads, length), ByHead(v_SH, heads, length), mask, dropout));
}

// Returns N×heads×T×d. Within a window, blocks of queries see the keys around them alone, so that the work grows with
// the length and not with its square.
at::Tensor AttendInBlocks(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double dropout,
                          int64_t window) {
  const int64_t length = q.size(2), block = std::max<int64_t>(4 * window, 64);
  std::vector<at::Tensor> outputs;
  for (int64_t first = 0; first < length; first += block) {
    const int64_t end = std::min(length, first + block);
    const int64_t first_key = std::max<int64_t>(0, first - window), end_key = std::min(length, end + window);
    outputs.push_back(AttendTo(q.slice(2, first, end), k.slice(2, first_key, end_key), v.slice(2, first_key, end_key),
                               Near(first, end - first, first_key, end_key - first_key, window, q.device()), dropout));
  }
  return at::cat(outputs, 2);
}

at::Tensor AttendOneByOne(const at::Tensor& q_SH, const at::Tensor& k_SH, const at::Tensor& v_SH, int64_t heads,
                          const std::vector<int64_t>& lengths, double dropout, const std::optional<int64_t>& window) {
  const auto q = q_SH.split_with_sizes(lengths), k = k_SH.split_with_sizes(lengths), v = v_SH.split_with_sizes(lengths);
  std::vector<at::Tensor> outputs;
  outputs.reserve(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto by_head = [&](const std::vector<at::Tensor>& all) { return ByHead(all[i], heads, lengths[i]); };
    outputs.push_back(Flat(window && *window < lengths[i] - 1
                               ? AttendInBlocks(by_head(q), by_head(k), by_head(v), dropout, *window)
                               : AttendTo(by_head(q), by_head(k), by_head(v), {}, dropout)));
  }
  return at::cat(outputs);
}

}  // namespace

bool HasFlashAttention(at::ScalarType type, int64_t features, at::Device device) {
  constexpr int64_t kMostFeatures = 256;
  const bool is_half = type == at::kHalf || type == at::kBFloat16;
  // LibTorch asks this of the capability, too, and answers without CUDA's headers.
  const auto is_ampere = [] { return at::detail::getCUDAHooks().supportsBFloat16ConvolutionWithCuDNNv8(); };
  return !device.is_cpu() && is_half && features % 8 == 0 && features <= kMostFeatures && is_ampere();
}

at::Tensor AttendPackedOnGpu(const at::Tensor& q_SH, const at::Tensor& k_SH, const at::Tensor& v_SH, int64_t heads,
                             const Sequences& sequences, double dropout, bool flash,
                             const std::optional<int64_t>& window) {
  const int64_t features = q_SH.size(1) / heads;
  const int64_t longest = sequences.most_tokens;
  const auto by_head = [&](const at::Tensor& x_SH) { return x_SH.view({-1, heads, features}); };
  const at::Tensor q = by_head(q_SH), k = by_head(k_SH), v = by_head(v_SH);
  if (flash) {
    return std::get<0>(at::_flash_attention_forward(q, k, v, sequences.offsets, sequences.offsets, longest, longest,
                                                    dropout, /*is_causal=*/false, /*return_debug_mask=*/false,
                                                    /*scale=*/{}, window, window))
        .flatten(1);
  }
  constexpr int64_t kNoMask = 0;
  return std::get<0>(at::_efficient_attention_forward(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), /*bias=*/{},
                                                      sequences.offsets, sequences.offsets, longest, longest, dropout,
                                                      kNoMask, /*compute_log_sumexp=*/true))
      .squeeze(0)
      .flatten(1);
}

Sequences Sequences::To(at::Device device) const {
  Sequences moved = *this;
  for (at::Tensor* tensor : {&moved.ids, &moved.positions, &moved.token_types, &moved.attended, &moved.offsets}) {
    if (tensor->defined()) *tensor = tensor->to(device, /*non_blocking=*/true);
  }
  return moved;
}

at::Tensor PositionsOf(const at::Tensor& ids_NT, const TextShape& shape) {
  if (shape.first_position == 0) {
    return at::arange(ids_NT.size(1), ids_NT.options()).clamp_max_(shape.longest_sequence - 1).expand_as(ids_NT);
  }
  const at::Tensor is_token = ids_NT.ne(shape.padding_id);
  return is_token.cumsum(1) * is_token + (shape.first_position - 1);
}

Sequences Padded(const at::Tensor& ids_NT, const at::Tensor& attended_NT, const TextShape& shape,
                 const at::Tensor& types_NT) {
  Sequences sequences;
  sequences.ids = ids_NT.flatten();
  sequences.positions = PositionsOf(ids_NT, shape).flatten();
  if (types_NT.defined()) sequences.token_types = types_NT.flatten();
  sequences.padded_length = ids_NT.size(1);
  sequences.attended = attended_NT;
  return sequences;
}

Sequences Packed(const at::Tensor& ids_NT, const at::Tensor& attended_NT, const TextShape& shape, at::Tensor* kept,
                 const at::Tensor& types_NT) {
  const at::Tensor attended = attended_NT.defined() ? attended_NT : at::ones_like(ids_NT, at::kBool);
  const at::Tensor places = attended.flatten().nonzero().squeeze(1);
  Sequences sequences;
  sequences.ids = ids_NT.flatten().index_select(0, places);
  sequences.positions = PositionsOf(ids_NT, shape).flatten().index_select(0, places);
  if (types_NT.defined()) sequences.token_types = types_NT.flatten().index_select(0, places);
  const at::Tensor all_lengths = attended.sum(1);
  const at::Tensor lengths = all_lengths.index_select(0, all_lengths.nonzero().squeeze(1));
  sequences.lengths.assign(lengths.const_data_ptr<int64_t>(), lengths.const_data_ptr<int64_t>() + lengths.numel());
  sequences.offsets = OffsetsOf(sequences.lengths);
  sequences.most_tokens = ids_NT.size(1);
  if (kept != nullptr) *kept = places;
  return sequences;
}

at::Tensor FirstTokens(const Sequences& sequences) {
  const at::Tensor& ids = sequences.ids;
  if (!sequences.packed()) return at::arange(0, ids.numel(), sequences.padded_length, ids.options());
  return sequences.offsets.slice(0, 0, -1 - sequences.fillers);
}

at::Tensor MeanOfTokens(const at::Tensor& x_SH, const Sequences& sequences) {
  if (!sequences.packed()) {
    const at::Tensor x_NTH = x_SH.view({-1, sequences.padded_length, x_SH.size(1)});
    if (!sequences.attended.defined()) return x_NTH.mean(1);
    const at::Tensor weights_NT1 = sequences.attended.unsqueeze(2).to(x_SH.scalar_type());
    return (x_NTH * weights_NT1).sum(1) / weights_NT1.sum(1);
  }
  if (!x_SH.is_cpu()) {  // a recorded step must take the lengths from the device
    const at::Tensor offsets = sequences.offsets.slice(0, 0, sequences.offsets.size(0) - sequences.fillers);
    const at::Tensor x = x_SH.to(at::kFloat);  // it adds up in the type that it is given
    return at::segment_reduce(x, "mean", /*lengths=*/{}, /*indices=*/{}, offsets, /*axis=*/0, /*unsafe=*/true);
  }
  std::vector<at::Tensor> means;
  for (const at::Tensor& one_TH : x_SH.split_with_sizes(sequences.lengths)) means.push_back(one_TH.mean(0));
  means.resize(means.size() - static_cast<size_t>(sequences.fillers));
  return at::stack(means);
}

int64_t FilledLength(int64_t tokens, int64_t most_tokens) {
  const int64_t granularity = GranularityOf(tokens);
  return RoundUp(tokens + FillersOf(granularity, most_tokens), granularity);
}

void FillUp(Sequences& packed, int64_t most_tokens, const TextShape& shape) {
  packed.most_tokens = std::max<int64_t>(2, most_tokens);
  const int64_t tokens = packed.ids.numel(), missing = FilledLength(tokens, packed.most_tokens) - tokens;
  const at::Tensor padding = at::full({missing}, shape.padding_id, at::kLong);
  packed.ids = at::cat({packed.ids, padding});
  const int64_t position = std::max<int64_t>(0, shape.first_position - 1);
  packed.positions = at::cat({packed.positions, at::full({missing}, position, at::kLong)});
  if (packed.token_types.defined()) packed.token_types = at::cat({packed.token_types, at::zeros({missing}, at::kLong)});
  packed.fillers = FillersOf(GranularityOf(tokens), packed.most_tokens);
  for (int64_t i = 0; i < packed.fillers; ++i) {
    packed.lengths.push_back(missing / packed.fillers + (i < missing % packed.fillers ? 1 : 0));
  }
  packed.offsets = OffsetsOf(packed.lengths);
}

at::Tensor Attend(const at::Tensor& q_SH, const at::Tensor& k_SH, const at::Tensor& v_SH, int64_t heads,
                  const Sequences& sequences, double dropout, const std::optional<int64_t>& window) {
  const bool flash = HasFlashAttention(q_SH.scalar_type(), q_SH.size(1) / heads, q_SH.device());
  if (!sequences.packed()) {
    const int64_t length = sequences.padded_length;
    if (!flash || sequences.attended.defined() || !window || *window >= length - 1) {
      return AttendPadded(q_SH, k_SH, v_SH, heads, sequences, dropout, window);
    }
    Sequences without_padding;  // so that what is outside of the window is not computed
    without_padding.offsets = at::arange(0, q_SH.size(0) + 1, length, q_SH.options().dtype(at::kInt));
    without_padding.most_tokens = length;
    return AttendPackedOnGpu(q_SH, k_SH, v_SH, heads, without_padding, dropout, flash, window);
  }
  if (q_SH.is_cpu() || (window && !flash)) {
    return AttendOneByOne(q_SH, k_SH, v_SH, heads, sequences.lengths, dropout, window);
  }
  return AttendPackedOnGpu(q_SH, k_SH, v_SH, heads, sequences, dropout, flash, window);
}

}  // namespace dtrain::models
