// Encodes records of pixels (safetensors) as images, because record files hold encoded images.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/formats/raw_rows.h"

namespace dtrain::data {

// Throws Error (exit code 2) if the rows are float32: they are normalised, and no image format keeps them unchanged.
void RequirePixels(const RawRows& rows);

// Returns a uint8 row as a PNG, which keeps every pixel, or as a JPEG if `quality` > 0. Throws DataError if it cannot
// be encoded.
std::vector<uint8_t> EncodePixels(std::span<const uint8_t> row, const RawRows& rows, int quality);

}  // namespace dtrain::data
