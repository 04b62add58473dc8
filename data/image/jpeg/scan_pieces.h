// The entropy-coded data of a baseline JPEG, cut where decoding can begin: at restart markers, at the seek points that
// `dtrain_data pack` can write (seek_points.h), or only at the front. What a crop does not need is then not even read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/image/jpeg/baseline_header.h"

namespace dtrain::data {

// Units (MCUs) in the order of the file, and their bits.
struct ScanPiece {
  int64_t begin = 0, end = 0;      // units
  std::span<const uint8_t> bytes;  // as they are in the file; the last byte may be the next piece's first
  int first_bit = 0;               // of the first byte
  std::array<int, 3> dc{};         // of the unit before, by component
};

// Cuts header.scan into pieces, from the first unit to the last. False: it is not as the header says.
bool CutScan(const BaselineHeader& header, std::vector<ScanPiece>& pieces);

// `bytes` up to their first marker, without the zeros that are stuffed after FF, in `memory`, whose size only grows.
// `padding` bytes can be read after them.
std::span<const uint8_t> WithoutStuffing(std::span<const uint8_t> bytes, size_t padding, std::vector<uint8_t>& memory);

}  // namespace dtrain::data
