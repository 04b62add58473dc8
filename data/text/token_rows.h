// The tensors of a batch of text, on which loader and tasks agree. A row is a block of tokens, padded to the length T
// of the batch, which is the SampleRef::size of its samples.
//
//   input_ids       int64 N×T, in [0, vocabulary): the model's input, masked; <pad> behind the last token
//   labels          int64 N×T: the token to guess, or -100 where there is no loss, which includes all padding
//   attention_mask  uint8 N×T: 1 for tokens, 0 for padding
//   token_type_ids  int64 N×T: which text of a pair a token is of, for models that tell; missing: all are 0
//   index           int64 N: the number of the block, as in every batch (data/pipeline/batch.h)
//
// The sum of attention_mask is the number of real tokens, and the number of labels other than -100 that of tokens to
// guess: both are known on the host before a batch is copied.
#pragma once

namespace dtrain::data {

inline constexpr char kInputIds[] = "input_ids";
inline constexpr char kTokenLabels[] = "labels";
inline constexpr char kAttentionMask[] = "attention_mask";
inline constexpr char kTokenTypes[] = "token_type_ids";

}  // namespace dtrain::data
