// Decodes a row of a safetensors file of text into a row of a batch: unchanged if it has labels, else masked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/formats/token_tensor_file.h"
#include "data/sample_decoder.h"
#include "data/text/masking.h"

namespace dtrain::data {

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
  const int64_t vocabulary_;
  const Masking masking_;
};

}  // namespace dtrain::data
