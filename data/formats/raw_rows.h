// Records that are pixels already: what a tensor file and synthetic data share. Decoding is a copy.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/record_kind.h"
#include "data/sample_decoder.h"

namespace dtrain::data {

// Of one size whatever is asked for. Field `images`: uint8 H×W×3 (planar records are transposed), or float32 3×H×W
// untouched.
class RawRowDecoder : public SampleDecoder {
 public:
  // Throws DataError for float32 rows that are not planar.
  explicit RawRowDecoder(const RawRows& rows);

  std::vector<Field> fields(int64_t size) const override;
  void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
              std::span<const std::span<std::byte>> rows) const override;

 private:
  RawRows rows_;
};

// 3×H×W → H×W×3, one byte an element.
void PlanarToInterleaved(const uint8_t* planar, int64_t height, int64_t width, uint8_t* interleaved);

}  // namespace dtrain::data
