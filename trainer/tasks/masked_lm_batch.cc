#include "trainer/tasks/masked_lm_batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "data/text/masking.h"
#include "data/text/token_rows.h"

namespace dtrain::loop {
namespace {

// Names of the tensors of a prepared batch that are copied to the device.
constexpr char kIds[] = "ids", kPositions[] = "positions", kAttended[] = "attended", kOffsets[] = "offsets",
               kChosen[] = "chosen", kAnswers[] = "answers", kCounts[] = "counts";
// Names of those that stay on the host: {tokens, rows without one, padded length of sequences or 0, tokens to guess};
// lengths of packed sequences.
constexpr char kNumbers[] = "numbers", kLengths[] = "lengths";

at::Tensor ToTensor(std::vector<int64_t> numbers) { return at::tensor(numbers, at::kLong); }

// Returns the counts of MaskedLmBatch in the order of its fields.
at::Tensor CountsTensor(int64_t guessed, int64_t tokens, int64_t padding, int64_t empty_rows) {
  return ToTensor({guessed, tokens, padding, empty_rows}).to(at::kFloat);
}

// Fills up with places that all differ: gradients that are added to the same place would wait for each other.
void FillUp(at::Tensor& chosen, at::Tensor& answers, int64_t size, int64_t tokens) {
  const int64_t missing = size - chosen.numel();
  chosen = at::cat({chosen, at::arange(missing, at::kLong).remainder(tokens)});
  answers = at::cat({answers, at::full({missing}, data::kNoLoss, at::kLong)});
}

}  // namespace

int64_t RoomFor(int64_t places) { return (places + kRoomMultiple - 1) / kRoomMultiple * kRoomMultiple; }

data::Batch PreparedText(data::Batch rows, int64_t padding_id, bool unpad, int64_t room) {
  const at::Tensor ids_NT = rows[data::kInputIds], attended_NT = rows[data::kAttentionMask].to(at::kBool);
  at::Tensor labels = rows[data::kTokenLabels].flatten();
  const at::Tensor is_empty_N = attended_NT.any(1).logical_not();
  const auto tokens = attended_NT.sum().item<int64_t>(), empty_rows = is_empty_N.sum().item<int64_t>();
  attended_NT.select(1, 0).logical_or_(is_empty_N);  // of the copy that has type bool
  models::Sequences sequences;
  if (unpad) {
    at::Tensor kept;
    sequences = models::Packed(ids_NT, attended_NT, padding_id, &kept);
    labels = labels.index_select(0, kept);
  } else {
    const bool is_full = tokens == ids_NT.numel();
    sequences = models::Padded(ids_NT, is_full ? at::Tensor() : attended_NT, padding_id);
  }
  at::Tensor chosen = labels.ne(data::kNoLoss).nonzero().squeeze(1), answers = labels.index_select(0, chosen);
  const int64_t guessed = chosen.numel(), computed = sequences.ids.numel();
  if (room > 0) FillUp(chosen, answers, std::max(room, RoomFor(guessed)), computed);

  data::Batch prepared;
  prepared.number = rows.number;
  prepared.tensors = {{"index", rows["index"]},
                      {kIds, sequences.ids},
                      {kPositions, sequences.positions},
                      {kChosen, chosen},
                      {kAnswers, answers},
                      {kCounts, CountsTensor(guessed, tokens, computed - tokens, empty_rows)}};
  if (sequences.attended.defined()) prepared.tensors[kAttended] = sequences.attended;
  if (sequences.offsets.defined()) prepared.tensors[kOffsets] = sequences.offsets;
  if (ids_NT.is_pinned()) {
    for (auto& [name, tensor] : prepared.tensors) tensor = tensor.pin_memory();
  }
  prepared.on_host[kNumbers] = ToTensor({tokens, empty_rows, sequences.padded_length, guessed});
  prepared.on_host[kLengths] = ToTensor(std::move(sequences.lengths));
  return prepared;
}

MaskedLmBatch TextOf(const data::Batch& prepared) {
  const auto optional = [&prepared](const char* name) {
    const auto found = prepared.tensors.find(name);
    return found == prepared.tensors.end() ? at::Tensor() : found->second;
  };
  const at::Tensor &numbers = prepared.on_host.at(kNumbers), &lengths = prepared.on_host.at(kLengths);
  const auto* number = numbers.const_data_ptr<int64_t>();
  const auto* length = lengths.const_data_ptr<int64_t>();
  const at::Tensor& counts = prepared[kCounts];
  return {.sequences = {.ids = prepared[kIds],
                        .positions = prepared[kPositions],
                        .padded_length = number[2],
                        .attended = optional(kAttended),
                        .lengths = {length, length + lengths.numel()},
                        .offsets = optional(kOffsets)},
          .chosen = prepared[kChosen],
          .answers = prepared[kAnswers],
          .guessed = number[3],
          .tokens = number[0],
          .empty_rows = number[1],
          .counts = {counts[0], counts[1], counts[2], counts[3]}};
}

}  // namespace dtrain::loop
