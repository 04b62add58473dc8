// A batch of text in the form that the model takes: the tokens, where each sequence begins, and which tokens are to be
// guessed. The host computes all of it before the batch is copied, since shapes depend on these numbers and the host
// would otherwise wait for the device.
#pragma once

#include <cstdint>

#include "data/pipeline/batch.h"
#include "models/sequences.h"

namespace dtrain::loop {

struct MaskedLmBatch {
  models::Sequences sequences;
  at::Tensor chosen;       // int64: the places, in the list of tokens, of those to be guessed
  at::Tensor answers;      // int64: the right token for each of `chosen`, or data::kNoLoss
  int64_t guessed = 0;     // answers other than kNoLoss
  int64_t tokens = 0;      // without padding
  int64_t empty_rows = 0;  // without a token

  // The numbers of the batch as float32 scalars on its device, for steps that are recorded (step_graph.h).
  struct Counts {
    at::Tensor guessed, tokens, padding, empty_rows;  // padding: tokens that the model computes on besides `tokens`
  } counts;
};

// Turns `rows`, which are on the host and in the form of data/text/token_rows.h, into a batch with the tensors of a
// MaskedLmBatch, in pinned memory if those of `rows` are. `unpad`: leaves padding out of the list of tokens. A row
// without a token has nothing to guess; the model computes on its first place, since attention to nothing is undefined.
// `room`: `chosen` and `answers` are filled up with places without a loss to this size, or to a multiple of
// kRoomMultiple if the batch has more to guess; 0: they are not filled up.
data::Batch PreparedText(data::Batch rows, int64_t padding_id, bool unpad, int64_t room = 0);

inline constexpr int64_t kRoomMultiple = 64;

// Returns the smallest multiple of kRoomMultiple that is at least `places`.
int64_t RoomFor(int64_t places);

// Views a batch that PreparedText has returned, and that may have been copied to a device since. Copies nothing, and
// does not wait for the device.
MaskedLmBatch TextOf(const data::Batch& prepared);

}  // namespace dtrain::loop
