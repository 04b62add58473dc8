// The tensors of a batch of text, on which loader and tasks agree, and the decoders of pretraining that fill them. A
// row is a block of tokens, padded to the length T of the batch, which is the SampleRef::size of its samples.
//
//   input_ids       int64 N×T, in [0, vocabulary): the model's input, masked; <pad> behind the last token
//   labels          int64 N×T: the token to guess, or -100 where there is no loss, which includes all padding
//   attention_mask  uint8 N×T: 1 for tokens, 0 for padding
//   token_type_ids  int64 N×T: which text of a pair a token is of, for models that tell; missing: all are 0
//   index           int64 N: the number of the block or row, as in every batch (data/pipeline/batch.h)
//
// The sum of attention_mask is the number of real tokens, and the number of labels other than -100 that of tokens to
// guess: both are known on the host before a batch is copied.
//
// Of sentences, a row is one sentence or pair with its special tokens, padded likewise. If rows are several texts, each
// by itself (SentenceTarget::of_texts), the first two are N×K×T.
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
#pragma once

#include <cstdint>
#include <memory>

#include "data/formats/tensor_file.h"
#include "data/formats/token_dataset.h"
#include "data/record_source.h"
#include "data/text/masking.h"

namespace dtrain::data {

inline constexpr char kInputIds[] = "input_ids";
inline constexpr char kTokenLabels[] = "labels";
inline constexpr char kAttentionMask[] = "attention_mask";
inline constexpr char kTokenTypes[] = "token_type_ids";
inline constexpr char kSentenceLabels[] = "labels";
inline constexpr char kSentenceTargets[] = "targets";
inline constexpr char kFirstWords[] = "words";

struct TokenRowOptions {
  TokenType type = TokenType::kUInt16;  // type of the stored tokens
  int64_t tokens_per_sample = 512;      // row length in tokens if SampleRef::size is 0
  int64_t dictionary_size = 0;          // stored tokens must be below it
  bool adds_begin = true;               // false: a block is stored with all of its tokens
  MaskingOptions masking;
};

// Decodes a block of stored tokens: adds <s>, if it has none, masks and pads. Cuts off tokens beyond the row, because
// the replacement of a bad block may be longer than the row. Throws DataError if a token is not in the dictionary.
std::unique_ptr<SampleDecoder> MakeTokenRowDecoder(const TokenRowOptions& options);

// Decodes a row of a safetensors file of text: unchanged if it has labels, else masked. Without a mask in the file,
// <pad> tokens are padding. Padding has no label, even if the file has one there. Throws DataError if a token or a
// label is not below masking.vocabulary, or a mask value is neither 0 nor 1.
std::unique_ptr<SampleDecoder> MakeTokenTensorDecoder(const TokenTensorFile::Layout& layout,
                                                      const MaskingOptions& masking);

}  // namespace dtrain::data
