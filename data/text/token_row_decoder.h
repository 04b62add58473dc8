// Decodes a block of stored tokens into a row of a batch: adds <s>, if it has none, masks and pads. Rows of a
// safetensors file are complete already.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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

// The fields are those of token_rows.h.
class TokenRowDecoder : public SampleDecoder {
 public:
  explicit TokenRowDecoder(const TokenRowOptions& options);

  std::vector<Field> fields(int64_t size) const override;

  // Cuts off tokens beyond the row, because the replacement of a bad block may be longer than the row. Throws DataError
  // if a token is not in the dictionary.
  void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
              std::span<const std::span<std::byte>> rows) const override;

 private:
  const TokenRowOptions options_;
  const Masking masking_;
};

// Returns the three fields for rows of `length` tokens.
std::vector<Field> TokenFields(int64_t length);

// Decodes a row of a safetensors file of text into a row of a batch: unchanged if it has labels, else masked.
// The fields are those of token_rows.h. Without a mask in the file, <pad> tokens are padding. Padding has no label,
// even if the file has one there.
class TokenTensorDecoder : public SampleDecoder {
 public:
  // Tokens and labels must be below masking.vocabulary. Rows without labels are masked.
  TokenTensorDecoder(const TokenTensorFile::Layout& layout, const MaskingOptions& masking);

  std::vector<Field> fields(int64_t size) const override;

  // Throws DataError if a token or a label is not in the vocabulary, or a mask value is neither 0 nor 1.
  void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
              std::span<const std::span<std::byte>> rows) const override;

 private:
  void MaskReal(const SampleRef& sample, std::span<const std::byte> is_real, std::span<int64_t> ids,
                std::span<int64_t> labels) const;

  const TokenTensorFile::Layout layout_;
  const int64_t vocabulary_, pad_;
  const Masking masking_;
};

}  // namespace dtrain::data
