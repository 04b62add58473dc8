// Decodes a block of stored tokens into a row of a batch: adds <s>, masks and pads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/formats/token_dataset.h"
#include "data/sample_decoder.h"
#include "data/text/masking.h"

namespace dtrain::data {

struct TokenRowOptions {
  TokenType type = TokenType::kUInt16;  // type of the stored tokens
  int64_t tokens_per_sample = 512;      // row length in tokens if SampleRef::size is 0
  int64_t dictionary_size = 0;          // stored tokens must be below it
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

}  // namespace dtrain::data
