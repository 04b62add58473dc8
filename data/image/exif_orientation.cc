#include "data/image/exif_orientation.h"

#include <algorithm>
#include <array>
#include <opencv2/core.hpp>
#include <optional>
#include <utility>

#include "data/image/codecs.h"
#include "data/storage.h"

namespace dtrain::data {
namespace {

constexpr int kLastOrientation = 8, kFirstWithRowsForColumns = 5;
constexpr uint16_t kOrientationTag = 0x0112, kShort = 3, kLong = 4;

// Returns the bytes from `at` on, at most `size` of them; none beyond the end.
Bytes Part(Bytes bytes, uint64_t at, uint64_t size) {
  if (at >= bytes.size()) return {};
  return bytes.subspan(at, std::min<uint64_t>(size, bytes.size() - at));
}

// Returns an unsigned number of `size` bytes; empty beyond the end.
std::optional<uint32_t> Number(Bytes bytes, uint64_t at, int size, bool big_endian) {
  const Bytes part = Part(bytes, at, static_cast<uint64_t>(size));
  if (part.size() != static_cast<size_t>(size)) return std::nullopt;
  uint32_t value = 0;
  for (int i = 0; i < size; ++i) value = value << 8 | part[static_cast<size_t>(big_endian ? i : size - 1 - i)];
  return value;
}

// Reads the first directory of a block of TIFF.
int OrientationInTiff(Bytes tiff) {
  const bool big_endian = AsText(tiff).starts_with("MM");
  if (!big_endian && !AsText(tiff).starts_with("II")) return kUpright;
  const auto number = [&](uint64_t at, int size) { return Number(tiff, at, size, big_endian); };
  const std::optional<uint32_t> directory = number(4, 4);
  const std::optional<uint32_t> entries = directory ? number(*directory, 2) : std::nullopt;
  for (uint64_t entry = 0; entries && entry < *entries; ++entry) {
    const uint64_t at = uint64_t{*directory} + 2 + 12 * entry;
    const std::optional<uint32_t> tag = number(at, 2);
    if (!tag) break;
    const auto type = number(at + 2, 2);
    if (*tag != kOrientationTag || (type != kShort && type != kLong)) continue;
    const int64_t value = number(at + 8, type == kShort ? 2 : 4).value_or(kUpright);
    return value >= kUpright && value <= kLastOrientation ? static_cast<int>(value) : kUpright;
  }
  return kUpright;
}

}  // namespace

int OrientationInExif(Bytes exif) {
  return OrientationInTiff(AsText(exif).starts_with(kExif) ? exif.subspan(kExif.size()) : exif);
}

int OrientationInChunks(Bytes bytes, bool is_png) {
  const std::string_view name = is_png ? "eXIf" : "EXIF";
  for (uint64_t at = is_png ? 8 : 12; at + 8 <= bytes.size();) {
    const uint64_t length = *Number(bytes, at + (is_png ? 0 : 4), 4, /*big_endian=*/is_png);
    if (AsText(bytes.subspan(at + (is_png ? 4 : 0))).starts_with(name))
      return OrientationInExif(Part(bytes, at + 8, length));
    at += 8 + (is_png ? length + 4 : length + length % 2);
  }
  return kUpright;
}

int ExifOrientation(Bytes bytes) {
  const Codec* codec = FindCodec(bytes);
  return codec != nullptr && codec->orientation != nullptr ? codec->orientation(bytes) : kUpright;
}

ImageSize UprightSize(ImageSize stored, int orientation) {
  if (orientation >= kFirstWithRowsForColumns) std::swap(stored.width, stored.height);
  return stored;
}

CropBox StoredBox(const CropBox& upright, ImageSize stored, int orientation) {
  CropBox box = upright;
  if (orientation >= kFirstWithRowsForColumns) {
    std::swap(box.x, box.y);
    std::swap(box.width, box.height);
  }
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  if (from_right) box.x = stored.width - box.x - box.width;
  if (from_below) box.y = stored.height - box.y - box.height;
  return box;
}

cv::Mat Upright(const cv::Mat& stored, int orientation) {
  constexpr int kColumns = 1, kRows = 0, kBoth = -1;  // what cv::flip reverses
  cv::Mat image = stored;
  if (orientation >= kFirstWithRowsForColumns) cv::transpose(stored, image = cv::Mat());
  if (orientation == 2 || orientation == 6) cv::flip(image, image, kColumns);
  if (orientation == 3 || orientation == 7) cv::flip(image, image, kBoth);
  if (orientation == 4 || orientation == 8) cv::flip(image, image, kRows);
  return image;
}

std::vector<uint8_t> WithOrientationOf(std::span<const uint8_t> original, std::vector<uint8_t> jpeg) {
  const int orientation = ExifOrientation(original);
  if (orientation == kUpright) return jpeg;
  // clang-format off
  const std::array<uint8_t, 36> segment = {
      0xFF, 0xE1, 0, 34, 'E', 'x', 'i', 'f', 0, 0,                                           // APP1 of 34 bytes
      'M', 'M', 0, 42, 0, 0, 0, 8,                                                           // the directory follows
      0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, static_cast<uint8_t>(orientation), 0, 0,        // with one entry
      0, 0, 0, 0};                                                                           // and none follows it
  // clang-format on
  constexpr int kStartOfImage = 2;  // bytes of the marker that a JPEG begins with
  jpeg.insert(jpeg.begin() + kStartOfImage, segment.begin(), segment.end());
  return jpeg;
}

}  // namespace dtrain::data
