// Pixels as a PNG, which keeps every one of them.
#pragma once

#include <cstdint>
#include <vector>

namespace dtrain::data {

// `pixels`: RGB of 8 bits, height × width × 3, row by row. Throws DataError where libpng refuses the size.
std::vector<uint8_t> WritePng(const uint8_t* pixels, int64_t width, int64_t height);

}  // namespace dtrain::data
