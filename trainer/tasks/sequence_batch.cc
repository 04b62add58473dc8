#include "trainer/tasks/sequence_batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "data/text/token_rows.h"

namespace dtrain::tasks {
namespace {

// Names of the tensors of a prepared batch that are copied to the device.
constexpr char kPositions[] = "positions", kTypes[] = "token_types", kAttended[] = "attended", kOffsets[] = "offsets",
               kCounts[] = "counts";
// Names of those that stay on the host: {tokens, rows without one, padded length of sequences or 0, fillers, most
// tokens of a sequence}; lengths of packed sequences.
constexpr char kNumbers[] = "numbers", kLengths[] = "lengths";

at::Tensor ToTensor(std::vector<int64_t> numbers) { return at::tensor(numbers, at::kLong); }

// Returns a tensor of a batch; undefined if it has none of this name.
at::Tensor Optional(const data::Batch& batch, const char* name) {
  const auto found = batch.tensors.find(name);
  return found == batch.tensors.end() ? at::Tensor() : found->second;
}

// Returns the counts of SequenceBatch in the order of its fields.
at::Tensor CountsTensor(int64_t terms, int64_t tokens, int64_t padding, int64_t empty_rows) {
  return ToTensor({terms, tokens, padding, empty_rows}).to(at::kFloat);
}

}  // namespace

data::Batch PreparedSequences(const data::Batch& rows, const models::TextShape& shape, const TokenLayout& layout,
                              int64_t terms, at::Tensor* kept) {
  const at::Tensor ids_NT = rows[data::kInputIds], attended_NT = rows[data::kAttentionMask].to(at::kBool);
  const at::Tensor is_empty_N = attended_NT.any(1).logical_not();
  const auto tokens = attended_NT.sum().item<int64_t>(), empty_rows = is_empty_N.sum().item<int64_t>();
  attended_NT.select(1, 0).logical_or_(is_empty_N);  // of the copy that has type bool
  const at::Tensor types_NT = shape.token_types > 1 ? Optional(rows, data::kTokenTypes) : at::Tensor();
  models::Sequences sequences;
  if (layout.unpad) {
    sequences = models::Packed(ids_NT, attended_NT, shape, kept, types_NT);
    if (layout.most_tokens > 0) models::FillUp(sequences, std::max(layout.most_tokens, ids_NT.size(1)), shape);
  } else {
    const bool is_full = tokens == ids_NT.numel();
    sequences = models::Padded(ids_NT, is_full ? at::Tensor() : attended_NT, shape, types_NT);
  }
  data::Batch prepared;
  prepared.number = rows.number;
  prepared.part = rows.part;
  prepared.on_host["index"] = rows["index"];
  prepared.tensors = {{kPreparedIds, sequences.ids},
                      {kPositions, sequences.positions},
                      {kCounts, CountsTensor(terms, tokens, sequences.ids.numel() - tokens, empty_rows)}};
  if (sequences.token_types.defined()) prepared.tensors[kTypes] = sequences.token_types;
  if (sequences.attended.defined()) prepared.tensors[kAttended] = sequences.attended;
  if (sequences.offsets.defined()) prepared.tensors[kOffsets] = sequences.offsets;
  prepared.on_host[kNumbers] =
      ToTensor({tokens, empty_rows, sequences.padded_length, sequences.fillers, sequences.most_tokens});
  prepared.on_host[kLengths] = ToTensor(std::move(sequences.lengths));
  return prepared;
}

SequenceBatch SequencesOf(const data::Batch& prepared) {
  const at::Tensor &numbers = prepared.on_host.at(kNumbers), &lengths = prepared.on_host.at(kLengths);
  const auto* number = numbers.const_data_ptr<int64_t>();
  const auto* length = lengths.const_data_ptr<int64_t>();
  const at::Tensor& counts = prepared[kCounts];
  return {.sequences = {.ids = prepared[kPreparedIds],
                        .positions = prepared[kPositions],
                        .token_types = Optional(prepared, kTypes),
                        .padded_length = number[2],
                        .attended = Optional(prepared, kAttended),
                        .lengths = {length, length + lengths.numel()},
                        .offsets = Optional(prepared, kOffsets),
                        .fillers = number[3],
                        .most_tokens = number[4]},
          .tokens = number[0],
          .empty_rows = number[1],
          .counts = {counts[0], counts[1], counts[2], counts[3]}};
}

}  // namespace dtrain::tasks
