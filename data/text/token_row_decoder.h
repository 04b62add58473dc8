// Decodes a block of stored tokens into a row of a batch: adds <s>, if it has none, masks and pads. Rows of a
// safetensors file are complete already.
#pragma once

#include <memory>

#include "data/formats/tensor_file.h"
#include "data/formats/token_dataset.h"
#include "data/sample_decoder.h"
#include "data/text/masking.h"

namespace dtrain::data {

struct TokenRowOptions {
  TokenType type = TokenType::kUInt16;  // type of the stored tokens
  int64_t tokens_per_sample = 512;      // row length in tokens if SampleRef::size is 0
  int64_t dictionary_size = 0;          // stored tokens must be below it
  bool adds_begin = true;               // false: a block is stored with all of its tokens
  MaskingOptions masking;
};

// The fields are those of token_rows.h. Decoding cuts off tokens beyond the row, because the replacement of a bad block
// may be longer than the row. It throws DataError if a token is not in the dictionary.
std::unique_ptr<SampleDecoder> MakeTokenRowDecoder(const TokenRowOptions& options);

// Decodes a row of a safetensors file of text into a row of a batch: unchanged if it has labels, else masked.
// The fields are those of token_rows.h. Without a mask in the file, <pad> tokens are padding. Padding has no label,
// even if the file has one there. Throws DataError if a token or a label is not below masking.vocabulary, or a mask
// value is neither 0 nor 1.
std::unique_ptr<SampleDecoder> MakeTokenTensorDecoder(const TokenTensorFile::Layout& layout,
                                                      const MaskingOptions& masking);

}  // namespace dtrain::data
