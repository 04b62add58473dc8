// Cameras store a photograph as the sensor read it, and say in its EXIF data how to turn it. --exif_orientation does
// so. Orientations are EXIF's: 1 is upright; 2 to 4 are mirrored, turned by 180° or both; 5 to 8 have rows for columns.
#pragma once

#include <cstdint>
#include <functional>
#include <opencv2/core/mat.hpp>
#include <span>
#include <string>
#include <vector>

#include "data/image/crop.h"
#include "data/record_source.h"

namespace dtrain::data {

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

// How many of the images that were looked at are not stored upright: all files of a small set, some of a large one.
struct TurnedImages {
  int64_t turned = 0, looked_at = 0, all = 0;
};
TurnedImages CountTurned(const RecordSource& source);

// Returns a sentence on images that are read as they are stored; an empty string if there are none. `what` is the name
// of the split or input.
std::string SayTurned(const TurnedImages& images, const std::string& what);

}  // namespace dtrain::data
