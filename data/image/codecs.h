// Image formats: decodes their files to 8-bit RGB, with the pixels of Pillow's convert("RGB"). The format is recognised
// by content, not by file name. As in torchvision's loader, EXIF orientation is ignored and alpha is dropped; 16-bit
// samples keep their high byte. A format is a Codec behind its functions, and a name in the table in codecs.cc.
//
// Nothing is allocated for an image before its header has been checked. An image of more than 178,956,970 pixels (where
// Pillow reports a decompression bomb) or with a side above 65,500 is refused.
#pragma once

#include <cstdint>
#include <opencv2/core/mat.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/image/crop.h"

namespace dtrain::data {

using Bytes = std::span<const uint8_t>;

constexpr int kLongestSide = 65'500;  // pixels; a longer side is refused

// The functions of a format never read beyond `bytes` or abort, whatever the bytes are. All but `orientation` throw
// DataError with the reason.
struct Codec {
  std::string_view name;                     // for messages
  std::vector<std::string_view> extensions;  // of file names, in lower case, with the dot; the usual one first
  std::vector<std::string_view> beginnings;  // of the bytes; ? is any byte
  ImageSize (*size)(Bytes) = nullptr;        // the header's size unchecked; null: the format is not read
  cv::Mat (*decode)(Bytes) = nullptr;        // CV_8UC3, RGB; only called once the size has been checked
  int (*orientation)(Bytes) = nullptr;       // that of the EXIF data (exif_orientation.h); null: there is none
  bool exif_is_last = false;                 // behind the pixels, so that the beginning of a file does not tell
  cv::Mat (*decode_region)(Bytes, const CropBox&, ImageSize target) = nullptr;  // null: what is decoded is cropped
  void (*require_holds)(ImageSize, size_t bytes) = nullptr;                     // null: any size may be of any file
  bool is_also_of_cameras = false;  // their raw data begin as its files do, which are known by their names then
};

// Returns the format of the bytes, also one that is not read; null if it is not known.
const Codec* FindCodec(Bytes bytes);

// Returns the extension of a file name in lower case, with its dot; empty if there is none.
std::string ExtensionOf(std::string_view name);

// Whether a file of this name is of a format that is read, or of one that is known and not read (.heic, .gif …).
bool IsImage(std::string_view name);
bool IsUnreadImage(std::string_view name);

// The extensions of all formats that are read, and the usual ones for messages: ".jpg, .png, …".
std::vector<std::string_view> AllImageExtensions();
std::string ImageExtensions();

inline constexpr char kConvertImages[] = "magick mogrify -format jpg FILES";

// The functions below throw DataError with the reason if the image is empty, truncated, of an unknown or unsupported
// format (GIF, 12-bit JPEG, …) or too large.

// Throws DataError if the size is empty or too large.
void RequireSaneSize(ImageSize size);

// Throws DataError if a JPEG of `bytes` bytes is too short for so many pixels, so that no memory is allocated for them.
void RequireJpegHolds(ImageSize size, size_t bytes);

// Reads the header only.
ImageSize ReadImageSize(Bytes bytes);

// Returns the whole image: CV_8UC3, RGB, continuous.
cv::Mat DecodeImage(Bytes bytes);

// Returns the pixels of `box` (inside the image, not empty), which the caller is going to resize to `target`: CV_8UC3,
// RGB, rows may be strided. Other parts of a JPEG are skipped where possible, and if the box is several times larger
// than the target, the result may have 1/2, 1/4 or 1/8 of the box's size.
cv::Mat DecodeRegion(Bytes bytes, const CropBox& box, ImageSize target);

// Encodes a CV_8UC3 image (RGB) as a JPEG with 4:2:0 colour. Throws DataError if it cannot be written.
std::vector<uint8_t> WriteJpeg(const cv::Mat& image, int quality);

// Returns the same coefficients, hence the same pixels, as a baseline file. A progressive file becomes about a tenth
// larger and decodes in half the time. Metadata are left out. Throws DataError if the file is damaged.
std::vector<uint8_t> RewriteAsBaseline(Bytes jpeg);

// `pixels`: 8-bit RGB, height × width × 3, row by row. Returns the bytes of the file. Throws DataError if libpng
// refuses the size.
std::vector<uint8_t> WritePng(const uint8_t* pixels, int64_t width, int64_t height);

}  // namespace dtrain::data
