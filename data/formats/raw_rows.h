// Decodes records that already are pixels, from a tensor file or synthetic data. Decoding is a copy.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/record_source.h"
#include "data/sample_decoder.h"

namespace dtrain::data {

// Ignores the requested size: every row has the size of the records. The field `images` is uint8 H×W×3 (planar records
// are transposed) or float32 3×H×W (copied unchanged).
class RawRowDecoder : public SampleDecoder {
 public:
  // Throws DataError if the rows are float32 and not planar.
  explicit RawRowDecoder(const RawRows& rows);

  std::vector<Field> fields(int64_t size) const override;
  void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
              std::span<const std::span<std::byte>> rows) const override;

 private:
  RawRows rows_;
};

// Converts uint8 3×H×W into H×W×3.
void PlanarToInterleaved(const uint8_t* planar, int64_t height, int64_t width, uint8_t* interleaved);

}  // namespace dtrain::data
