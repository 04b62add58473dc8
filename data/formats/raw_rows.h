// Records that already are pixels: their decoding, which is a copy, and a source of generated ones.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "data/record_source.h"

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

// `size` records of random uint8 H×W×3 pixels (only 32 of them differ) with random labels. Equal arguments give equal
// records.
class Synthetic : public RecordSource {
 public:
  // Throws DataError if size, num_classes, height or width is below 1.
  Synthetic(int64_t size, int64_t num_classes, int64_t height, int64_t width, int64_t seed = 0);

  int64_t size() const override { return size_; }
  RecordKind kind() const override { return RecordKind::kPixels; }
  RawRows rows() const override { return rows_; }
  int64_t Label(int64_t index) const override;
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override;  // a made-up place, for messages
  int64_t num_classes() const override { return num_classes_; }
  std::string fingerprint() const override;

 private:
  int64_t size_, num_classes_, seed_;
  RawRows rows_;
  mutable std::once_flag is_drawn_;
  mutable std::vector<uint8_t> pool_;
};

}  // namespace dtrain::data
