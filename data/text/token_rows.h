// What a batch of text is: the tensors that loader and task agree on. A row is a block of tokens, padded to the length
// T of the batch, which its samples have in SampleRef::size.
//
//   input_ids       int64 N×T, in [0, vocabulary): what the model sees, masked; <pad> (1) behind the last token
//   labels          int64 N×T: the token that is to be guessed, or -100 where there is no loss
//   attention_mask  uint8 N×T: 1 for tokens, 0 for padding
//   index           int64 N: the block, as for every batch (data/pipeline/batch.h)
//
// How many tokens are real is the sum of attention_mask, how many are guessed the number of labels that are not -100:
// both are known on the host, before a batch is copied.
#pragma once

namespace dtrain::data {

inline constexpr char kInputIds[] = "input_ids";
inline constexpr char kTokenLabels[] = "labels";
inline constexpr char kAttentionMask[] = "attention_mask";

}  // namespace dtrain::data
