// The sequences of a batch in the form that the model takes: the tokens, and where each sequence begins. The host
// computes all of it before the batch is copied, since shapes depend on these numbers and the host would otherwise wait
// for the device.
#pragma once

#include <cstdint>

#include "data/pipeline/batch.h"
#include "models/sequences.h"

namespace dtrain::tasks {

struct SequenceBatch {
  models::Sequences sequences;
  int64_t tokens = 0;      // without padding
  int64_t empty_rows = 0;  // without a token

  // The numbers of the batch as float32 scalars on its device, for steps that are recorded (step_graph.h).
  struct Counts {
    at::Tensor terms, tokens, padding, empty_rows;  // padding: tokens that the model computes on besides `tokens`
  } counts;
};

// What the list of tokens holds besides tokens.
struct TokenLayout {
  bool unpad = false;       // the padding of rows is left out
  int64_t most_tokens = 0;  // if not 0, the list without padding is filled up: see models::FillUp
};

// Turns the input_ids, attention_mask and token types, if any, of `rows` (data/text/token_rows.h), which are on the
// host, into a batch with the tensors of a SequenceBatch and with `index`. The model computes on the first place of a
// row without a token, since attention to nothing is undefined. `terms` is the number of terms in the loss of the
// batch. `kept` is as in models::Packed; it stays undefined without `layout.unpad`.
data::Batch PreparedSequences(const data::Batch& rows, const models::TextShape& shape, const TokenLayout& layout,
                              int64_t terms, at::Tensor* kept = nullptr);

// Views a batch that PreparedSequences has returned, and that may have been copied to a device since. Copies nothing,
// and does not wait for the device.
SequenceBatch SequencesOf(const data::Batch& prepared);

// The name of the tensor of a prepared batch with its tokens (Sequences::ids).
inline constexpr char kPreparedIds[] = "ids";

}  // namespace dtrain::tasks
