// Records that are pixels already (safetensors) as encoded images, which record files hold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/formats/raw_rows.h"

namespace dtrain::data {

// Throws Error (exit code 2) for float32 rows: they are normalised already, and no image format keeps them as they are.
void RequirePixels(const RawRows& rows);

// A uint8 row as a PNG, which keeps every pixel; with `quality` > 0 as a JPEG of it. Throws DataError where it cannot
// be encoded.
std::vector<uint8_t> EncodePixels(std::span<const uint8_t> row, const RawRows& rows, int quality);

}  // namespace dtrain::data
