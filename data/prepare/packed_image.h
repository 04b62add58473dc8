// What pack makes of images: pixels (of safetensors) are encoded, because record files hold encoded images, large
// images are made smaller once instead of in every epoch, and JPEGs are rewritten so that crops decode faster.
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

// Returns an encoded image whose short side exceeds `short_side` pixels as a JPEG of this quality, resized to that
// short side (antialiased); returns any other image unchanged. Throws DataError if it cannot be decoded.
std::vector<uint8_t> ShrinkImage(std::vector<uint8_t> encoded, int short_side, int quality);

// Returns a JPEG as a baseline file with seek points (data/image/jpeg/baseline_header.h), whose crops decode fastest;
// returns any other content, and JPEGs that cannot have them (CMYK, damaged), unchanged.
std::vector<uint8_t> MakeSeekable(std::vector<uint8_t> encoded);

}  // namespace dtrain::data
