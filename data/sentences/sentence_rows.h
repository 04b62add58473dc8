// The tensors of a batch of sentences, on which loader and tasks agree. A row is one sentence or pair with its special
// tokens, padded to the length T of the batch, which is the SampleRef::size of its samples.
//
// If rows are several texts, each by itself (SentenceTarget::kTexts), the first two are N×K×T.
//
//   input_ids       int64 N×T: <s> a </s>, or <s> a </s></s> b </s>, or as RowFormat is; <pad> behind the last token
//   attention_mask  uint8 N×T: 1 for tokens, 0 for padding
//   token_type_ids  int64 N×T: 1 for the second text of a pair and the end behind it, else 0; only if RowFormat has
//                   types
//   labels          int64 N: the class from RecordSource::Label; -1 where the data has no classes. If tokens have
//                   labels, int64 N×T: the class of a word at its first token, -100 (kNoLoss) at all others
//   words           int64 N: the number of the first word with a label in the row; only if tokens have labels
//   targets         float32 N: the number to predict, or the score of texts, if there are any; or N×C: 1 for the
//                   classes that hold, if several may, else 0
//   index           int64 N: the number of the row, as in every batch (data/pipeline/batch.h)
#pragma once

#include "data/text/token_rows.h"

namespace dtrain::data {

// input_ids and attention_mask are kInputIds and kAttentionMask (token_rows.h).
inline constexpr char kSentenceLabels[] = "labels";
inline constexpr char kSentenceTargets[] = "targets";
inline constexpr char kFirstWords[] = "words";

}  // namespace dtrain::data
