// Seek points of a JPEG: where in the entropy-coded data some of its units (MCUs) begin, and the DC values there, so
// that a crop need not be decoded from the image's upper left corner. `dtrain_data pack --seek_points` stores them in
// an APP10 segment, which other programs skip; data/FORMAT.md describes the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dtrain::data {

struct SeekPoint {
  size_t bytes = 0;         // distance in the file from the previous point to the byte with this point's first bit
  int bit = 0;              // in that byte, 0 (the highest) to 7
  std::array<int, 3> dc{};  // DC values of the unit before, by component
};

// One point at every `units`-th unit of each row of units, except the first unit of the image. `packed` refers to the
// segment's bytes, which must outlive it.
struct SeekPoints {
  int units = 0;
  int components = 0;
  std::span<const uint8_t> packed;

  SeekPoint Get(size_t i) const;
};

constexpr uint8_t kSeekPointsMarker = 0xEA;  // APP10

// Reads the segment of an image with that many units and components, whose scan has `scan_bytes`. Returns empty if the
// segment is another program's, is damaged or belongs to another image.
std::optional<SeekPoints> ReadSeekPoints(std::span<const uint8_t> segment, int64_t units_across, int64_t units_down,
                                         int components, size_t scan_bytes);

// Returns a plain baseline JPEG with seek points, and any other JPEG unchanged. A JPEG that has seek points or restart
// markers already, or that is too large for one segment, is unchanged, too.
std::vector<uint8_t> AddSeekPoints(std::vector<uint8_t> jpeg);

}  // namespace dtrain::data
