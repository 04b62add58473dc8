// The filters that images are resized with.
#pragma once

#include <string_view>

namespace dtrain::data {

enum class Interpolation { kBilinear, kBicubic };

// Parses --interpolation. Throws std::invalid_argument for any other word.
Interpolation InterpolationFromName(std::string_view name);  // bilinear | bicubic

}  // namespace dtrain::data
