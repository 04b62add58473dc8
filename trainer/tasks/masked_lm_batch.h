// A batch for masked language modelling: its sequences, and which of their tokens are to be guessed.
#pragma once

#include <cstdint>

#include "data/pipeline/batch.h"
#include "trainer/tasks/sequence_batch.h"

namespace dtrain::tasks {

// The terms of the loss are the tokens to be guessed.
struct MaskedLmBatch : SequenceBatch {
  at::Tensor chosen;    // int64: the places, in the list of tokens, of those to be guessed
  at::Tensor answers;   // int64: the right token for each of `chosen`, or data::kNoLoss
  int64_t guessed = 0;  // answers other than kNoLoss
};

// Turns `rows`, which are on the host and in the form of data/text/token_rows.h, into a batch with the tensors of a
// MaskedLmBatch, in pinned memory if those of `rows` are. `chosen` and `answers` are filled up with places without a
// loss to RoomFor(this share of the list, and one for each row), or to a multiple of kRoomMultiple if the batch has
// more to guess. So their size depends on the shape alone: a row of n tokens has at most share·n + 1 to guess
// (masking.h), and more only if whole words are masked. `share` is 0: they are not filled up.
data::Batch PreparedText(data::Batch rows, int64_t padding_id, const TokenLayout& layout, double share = 0);

inline constexpr int64_t kRoomMultiple = 64;

// Returns the smallest multiple of kRoomMultiple that is at least `places`.
int64_t RoomFor(int64_t places);

// Views a batch that PreparedText has returned, and that may have been copied to a device since. Copies nothing, and
// does not wait for the device.
MaskedLmBatch TextOf(const data::Batch& prepared);

}  // namespace dtrain::tasks
