// From a block of stored tokens to a row of a batch: <s> in front, masked, padded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/formats/token_dataset.h"
#include "data/sample_decoder.h"
#include "data/text/masking.h"

namespace dtrain::data {

struct TokenRowOptions {
  TokenType type = TokenType::kUInt16;  // how tokens are stored
  int64_t tokens_per_sample = 512;      // tokens of a row where SampleRef::size is 0
  int64_t dictionary_size = 0;          // stored tokens are below it
  MaskingOptions masking;
};

// Fields as token_rows.h has them.
class TokenRowDecoder : public SampleDecoder {
 public:
  explicit TokenRowDecoder(const TokenRowOptions& options);

  std::vector<Field> fields(int64_t size) const override;

  // Tokens that the row has no room for are cut off: a stand-in for a bad block may be longer than the row. Throws
  // DataError where a token is not in the dictionary.
  void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
              std::span<const std::span<std::byte>> rows) const override;

 private:
  const TokenRowOptions options_;
  const Masking masking_;
};

// The three fields of rows of `length` tokens.
std::vector<Field> TokenFields(int64_t length);

}  // namespace dtrain::data
