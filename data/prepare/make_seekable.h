// Rewrites images while they are packed, so that their crops decode fastest. The pixels stay the same.
#pragma once

#include <cstdint>
#include <vector>

namespace dtrain::data {

// Returns a JPEG as a baseline file with seek points (data/image/jpeg/seek_points.h); returns any other content, and
// JPEGs that cannot have them (CMYK, damaged), unchanged.
std::vector<uint8_t> MakeSeekable(std::vector<uint8_t> encoded);

}  // namespace dtrain::data
