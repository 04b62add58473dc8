// Encoded image → 8-bit RGB pixels, equal to what Pillow's convert("RGB") gives. The format is told by the content,
// never by the name; EXIF orientation is ignored and alpha dropped, as torchvision's loader does; 16-bit samples give
// their high byte.
//
// Nothing is allocated for an image before its header has been checked: more than 178,956,970 pixels (where Pillow
// speaks of a decompression bomb) or a side above 65,500 is refused.
#pragma once

#include <cstdint>
#include <opencv2/core/mat.hpp>
#include <span>

#include "data/image/crop.h"

namespace dtrain::data {

// All throw DataError with the reason: empty, truncated, an unknown or unsupported format (GIF, 12-bit JPEG, …), too
// large. None of them reads beyond `bytes` or aborts, whatever the bytes are.

// Throws for a size that is empty or too large.
void RequireSaneSize(ImageSize size);

// Throws for a size that a JPEG of so many bytes cannot hold: memory for it is not even asked for.
void RequireJpegHolds(ImageSize size, size_t bytes);

// From the header alone.
ImageSize ReadImageSize(std::span<const uint8_t> bytes);

// CV_8UC3 in RGB order, continuous.
cv::Mat DecodeImage(std::span<const uint8_t> bytes);

// The pixels of `box` (inside the image, not empty) that are going to be resized to `target`: for a JPEG, other parts
// are skipped where possible, and where the box is several times larger than the target it may come at 1/2, 1/4 or 1/8
// of its size. CV_8UC3, RGB, rows may be strided.
cv::Mat DecodeRegion(std::span<const uint8_t> bytes, const CropBox& box, ImageSize target);

}  // namespace dtrain::data
