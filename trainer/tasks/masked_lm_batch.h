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
  at::Tensor answers;      // int64: the right token for each of `chosen`
  int64_t tokens = 0;      // without padding
  int64_t empty_rows = 0;  // without a token

  int64_t padding() const { return sequences.ids.numel() - tokens; }  // tokens that the model computes on too
};

// Turns `rows`, which are on the host and in the form of data/text/token_rows.h, into a batch with the tensors of a
// MaskedLmBatch, in pinned memory if those of `rows` are. `unpad`: leaves padding out of the list of tokens. A row
// without a token has nothing to guess; the model computes on its first place, since attention to nothing is undefined.
data::Batch PreparedText(data::Batch rows, int64_t padding_id, bool unpad);

// Views a batch that PreparedText has returned, and that may have been copied to a device since. Copies nothing, and
// does not wait for the device.
MaskedLmBatch TextOf(const data::Batch& prepared);

}  // namespace dtrain::loop
