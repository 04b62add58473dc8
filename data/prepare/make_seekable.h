// Images rewritten, when they are packed, so that crops of them decode fastest. The pixels stay the same.
#pragma once

#include <cstdint>
#include <vector>

namespace dtrain::data {

// A JPEG comes back as a baseline file with seek points (data/image/jpeg/seek_points.h); what is no JPEG, or one of a
// kind that has none (CMYK, damaged), as it is.
std::vector<uint8_t> MakeSeekable(std::vector<uint8_t> encoded);

}  // namespace dtrain::data
