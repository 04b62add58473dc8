// Cameras store a photograph as the sensor read it, and say in its EXIF data how to turn it. --exif_orientation does
// so. Orientations are EXIF's: 1 is upright; 2 to 4 are mirrored, turned by 180° or both; 5 to 8 have rows for columns.
#pragma once

#include <cstdint>
#include <opencv2/core/mat.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "data/image/crop.h"

namespace dtrain::data {

inline constexpr int kUpright = 1;

inline constexpr std::string_view kExif("Exif\0\0", 6);  // what stands before it in most files

// Returns the orientation in EXIF data, a block of TIFF; 1 if it has none or is damaged.
int OrientationInExif(std::span<const uint8_t> exif);

// The same of the chunk of EXIF data in a PNG or WebP file. PNG is a list of chunks of a length, a name, the content
// and a checksum; WebP of a name, a length, and the content, filled up to an even length.
int OrientationInChunks(std::span<const uint8_t> bytes, bool is_png);

// Returns the orientation in the EXIF data of a JPEG, PNG or WebP file; 1 if it has none, is of another format (TIFF
// files are always turned by their own tag) or is damaged. `bytes` may be the beginning of a file.
int ExifOrientation(std::span<const uint8_t> bytes);

// Returns the size of an image of `stored` size when it is upright.
ImageSize UprightSize(ImageSize stored, int orientation);

// Returns where a box of the upright image lies in the stored one, whose size is `stored`.
CropBox StoredBox(const CropBox& upright, ImageSize stored, int orientation);

// Returns the upright image. `stored` may be changed.
cv::Mat Upright(const cv::Mat& stored, int orientation);

// Returns a JPEG that was made from `original`, without EXIF data, with the orientation of it.
std::vector<uint8_t> WithOrientationOf(std::span<const uint8_t> original, std::vector<uint8_t> jpeg);

}  // namespace dtrain::data
