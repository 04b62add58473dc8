// A batch of text as the model is asked: which tokens there are, where each sequence begins, which are to be guessed.
// All of it is worked out on the host before the batch is copied. On a device these numbers would have to be waited
// for.
#pragma once

#include <cstdint>

#include "data/pipeline/batch.h"
#include "models/sequences.h"

namespace dtrain::loop {

struct MaskedLmBatch {
  models::Sequences sequences;
  at::Tensor chosen;   // int64: the places in the list of tokens that are to be guessed
  at::Tensor answers;  // int64, as many
  int64_t tokens = 0;  // that are no padding

  int64_t padding() const { return sequences.ids.numel() - tokens; }  // that the model computes on besides
};

// `rows`: as data/text/token_rows.h has them, on the host. The result has the tensors of a MaskedLmBatch in place of
// theirs, pinned where theirs are. `unpad`: the list of tokens has no padding.
data::Batch PreparedText(data::Batch rows, int64_t padding_id, bool unpad);

// Of what PreparedText returned, wherever its tensors are by now. Nothing is copied or waited for.
MaskedLmBatch TextOf(const data::Batch& prepared);

}  // namespace dtrain::loop
