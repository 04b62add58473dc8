// Encodes pixels as PNG, which is lossless.
#pragma once

#include <cstdint>
#include <vector>

namespace dtrain::data {

// `pixels`: 8-bit RGB, height × width × 3, row by row. Returns the bytes of the file. Throws DataError if libpng
// refuses the size.
std::vector<uint8_t> WritePng(const uint8_t* pixels, int64_t width, int64_t height);

}  // namespace dtrain::data
