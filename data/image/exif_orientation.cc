#include "data/image/exif_orientation.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <opencv2/core.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "data/error.h"
#include "data/formats/in_parallel.h"
#include "data/image/codecs.h"
#include "data/storage.h"

namespace dtrain::data {
namespace {

constexpr int kUpright = 1, kLastOrientation = 8, kFirstWithRowsForColumns = 5;
constexpr uint16_t kOrientationTag = 0x0112, kShort = 3;
constexpr std::string_view kExif("Exif\0\0", 6);
constexpr uint64_t kExifBytes =
    1 << 16;  // the beginning of a file, which holds the EXIF data of nearly every photograph
constexpr int64_t kMostFiles = 1000, kMostRecords = 64;

bool BeginsWith(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::equal(text.begin(), text.end(), bytes.begin(),
                                                   [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

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

// Reads the first directory of a block of TIFF, which EXIF data is.
int OrientationInTiff(Bytes tiff) {
  const bool big_endian = BeginsWith(tiff, "MM");
  if (!big_endian && !BeginsWith(tiff, "II")) return kUpright;
  const auto number = [&](uint64_t at, int size) { return Number(tiff, at, size, big_endian); };
  const std::optional<uint32_t> directory = number(4, 4);
  const std::optional<uint32_t> entries = directory ? number(*directory, 2) : std::nullopt;
  for (uint64_t entry = 0; entries && entry < *entries; ++entry) {
    const uint64_t at = uint64_t{*directory} + 2 + 12 * entry;
    const std::optional<uint32_t> tag = number(at, 2);
    if (!tag) break;
    if (*tag != kOrientationTag || number(at + 2, 2) != kShort) continue;
    const int value = static_cast<int>(number(at + 8, 2).value_or(kUpright));
    return value >= kUpright && value <= kLastOrientation ? value : kUpright;
  }
  return kUpright;
}

// PNG and WebP are lists of chunks: in PNG a length, a name, the content and a checksum, in WebP a name, a length, and
// the content, filled up to an even length.
int OrientationInChunks(Bytes bytes, bool is_png) {
  const std::string_view name = is_png ? "eXIf" : "EXIF";
  for (uint64_t at = is_png ? 8 : 12; at + 8 <= bytes.size();) {
    const uint64_t length = *Number(bytes, at + (is_png ? 0 : 4), 4, /*big_endian=*/is_png);
    if (BeginsWith(bytes.subspan(at + (is_png ? 4 : 0)), name)) {
      const Bytes content = Part(bytes, at + 8, length);
      return OrientationInTiff(BeginsWith(content, kExif) ? content.subspan(kExif.size()) : content);
    }
    at += 8 + (is_png ? length + 4 : length + length % 2);
  }
  return kUpright;
}

// Reads no more of a file than its beginning if the orientation is there.
int OrientationOf(const RecordSource& source, int64_t index, bool is_file) {
  try {
    if (!is_file) return ExifOrientation(source.Read(index));
    const std::vector<uint8_t> bytes = ReadBeginning(source.Place(index).file, kExifBytes);
    const Codec* codec = FindCodec(bytes);
    return codec != nullptr && codec->exif_is_last ? ExifOrientation(source.Read(index)) : ExifOrientation(bytes);
  } catch (const DataError&) {  // whoever reads the image reports it
    return kUpright;
  }
}

}  // namespace

// Columns of the table of formats (codecs.cc).

int JpegOrientation(Bytes bytes) {
  constexpr uint8_t kApp1 = 0xE1, kScan = 0xDA;
  for (uint64_t at = 2; at + 4 <= bytes.size() && bytes[at] == 0xFF && bytes[at + 1] != kScan;) {
    if (bytes[at + 1] == 0xFF) {  // a fill byte
      ++at;
      continue;
    }
    const uint64_t length = *Number(bytes, at + 2, 2, /*big_endian=*/true);
    const Bytes segment = Part(bytes, at + 4, length < 2 ? 0 : length - 2);
    if (bytes[at + 1] == kApp1 && BeginsWith(segment, kExif)) return OrientationInTiff(segment.subspan(kExif.size()));
    at += 2 + std::max<uint64_t>(length, 2);
  }
  return kUpright;
}

int PngOrientation(Bytes bytes) { return OrientationInChunks(bytes, /*is_png=*/true); }
int WebpOrientation(Bytes bytes) { return OrientationInChunks(bytes, /*is_png=*/false); }

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

TurnedImages CountTurned(const RecordSource& source) {
  if (source.kind() != RecordKind::kEncodedImage) return {};
  const bool are_files = !source.Place(0).offset;
  const int64_t looked_at = std::min(source.size(), are_files ? kMostFiles : kMostRecords);
  std::atomic<int64_t> turned = 0;
  InParallel(static_cast<size_t>(looked_at), [&](size_t i) {
    const auto index = static_cast<int64_t>(static_cast<double>(i) * static_cast<double>(source.size()) /
                                            static_cast<double>(looked_at));
    if (OrientationOf(source, index, are_files) != kUpright) ++turned;
  });
  return {turned, looked_at, source.size()};
}

std::string SayTurned(const TurnedImages& images, const std::string& what) {
  if (images.turned == 0) return "";
  return what + ": " + std::to_string(images.turned) + " of " + std::to_string(images.looked_at) +
         (images.looked_at < images.all ? " images that were looked at" : " images") +
         " have an EXIF orientation and are used as they are stored, as with torchvision; --exif_orientation "
         "turns them upright";
}

}  // namespace dtrain::data
