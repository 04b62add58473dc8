// From a row of a safetensors file of text to a row of a batch: served as it is, or masked where it has no labels.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/formats/token_tensor_file.h"
#include "data/sample_decoder.h"
#include "data/text/masking.h"

namespace dtrain::data {

// Fields as token_rows.h has them. Without a mask in the file, what is <pad> is padding.
class TokenTensorDecoder : public SampleDecoder {
 public:
  // Tokens are below `vocabulary`. `masking` is for rows without labels.
  TokenTensorDecoder(const TokenTensorFile::Layout& layout, int64_t vocabulary, MaskingOptions masking);

  std::vector<Field> fields(int64_t size) const override;

  // Throws DataError where a token or a label is not in the vocabulary, or the mask has another number than 0 and 1.
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
