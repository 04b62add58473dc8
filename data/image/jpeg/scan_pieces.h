// Cuts the entropy-coded data of a baseline JPEG into pieces at which decoding can begin: at restart markers, or at the
// seek points that `dtrain_data pack` can write (seek_points.h); without either there is one piece. Pieces that a crop
// does not need are not even read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/image/jpeg/baseline_header.h"

namespace dtrain::data {

// A range of units (MCUs) in the order of the file, and its bits.
struct ScanPiece {
  int64_t begin = 0, end = 0;      // units
  std::span<const uint8_t> bytes;  // as in the file, with stuffing; the last byte may also belong to the next piece
  int first_bit = 0;               // in the first byte, 0 (the highest) to 7
  std::array<int, 3> dc{};         // DC values of the unit before, by component
};

// Cuts header.scan into `pieces`, which cover all units in order. Returns false if the restart markers are not as the
// header says.
bool CutScan(const BaselineHeader& header, std::vector<ScanPiece>& pieces);

// Copies `bytes` up to their first marker into `memory`, without the zeros that are stuffed after FF. `memory` only
// grows, and `padding` bytes can be read after the returned ones.
std::span<const uint8_t> WithoutStuffing(std::span<const uint8_t> bytes, size_t padding, std::vector<uint8_t>& memory);

}  // namespace dtrain::data
