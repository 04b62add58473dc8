// Decodes images to 8-bit RGB, with the pixels of Pillow's convert("RGB"). The format is recognised by content, not by
// file name. As in torchvision's loader, EXIF orientation is ignored and alpha is dropped; 16-bit samples keep their
// high byte.
//
// Nothing is allocated for an image before its header has been checked. An image of more than 178,956,970 pixels (where
// Pillow reports a decompression bomb) or with a side above 65,500 is refused.
#pragma once

#include <cstdint>
#include <opencv2/core/mat.hpp>
#include <span>

#include "data/image/crop.h"

namespace dtrain::data {

// All functions throw DataError with the reason if the image is empty, truncated, of an unknown or unsupported format
// (GIF, 12-bit JPEG, …) or too large. None of them reads beyond `bytes` or aborts, whatever the bytes are.

// Throws DataError if the size is empty or too large.
void RequireSaneSize(ImageSize size);

// Throws DataError if a JPEG of `bytes` bytes is too short for so many pixels, so that no memory is allocated for them.
void RequireJpegHolds(ImageSize size, size_t bytes);

// Reads the header only.
ImageSize ReadImageSize(std::span<const uint8_t> bytes);

// Returns the whole image: CV_8UC3, RGB, continuous.
cv::Mat DecodeImage(std::span<const uint8_t> bytes);

// Returns the pixels of `box` (inside the image, not empty), which the caller is going to resize to `target`: CV_8UC3,
// RGB, rows may be strided. Other parts of a JPEG are skipped where possible, and if the box is several times larger
// than the target, the result may have 1/2, 1/4 or 1/8 of the box's size.
cv::Mat DecodeRegion(std::span<const uint8_t> bytes, const CropBox& box, ImageSize target);

}  // namespace dtrain::data
