// Seek points of a JPEG: where in the entropy-coded data some of its units (MCUs) begin, and the DC values there, so
// that a crop need not be decoded from the image's upper left corner. `dtrain_data pack --seek_points` keeps them in an
// APP10 segment, which other programs skip; data/FORMAT.md has the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dtrain::data {

struct SeekPoint {
  size_t bytes = 0;         // from the point before to the byte with this point's first bit, as they are in the file
  int bit = 0;              // of that byte, 0 (the highest) to 7
  std::array<int, 3> dc{};  // of the unit before, by component
};

// One point for each `units` units of a row of units, but none for the first of the image.
struct SeekPoints {
  int units = 0;
  int components = 0;
  std::span<const uint8_t> packed;

  SeekPoint Get(size_t i) const;
};

constexpr uint8_t kSeekPointsMarker = 0xEA;  // APP10

// From the segment of an image with that many units and components, whose scan has `scan_bytes`. nullopt: it is another
// program's, or of another image.
std::optional<SeekPoints> ReadSeekPoints(std::span<const uint8_t> segment, int64_t units_across, int64_t units_down,
                                         int components, size_t scan_bytes);

// A plain baseline JPEG comes back with seek points, any other as it is.
std::vector<uint8_t> AddSeekPoints(std::vector<uint8_t> jpeg);

}  // namespace dtrain::data
