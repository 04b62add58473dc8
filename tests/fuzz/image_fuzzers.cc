// Images of all formats, and crops of JPEGs.
#include <algorithm>
#include <string_view>
#include <vector>

#include "data/error.h"
#include "data/formats/crc32c.h"
#include "data/formats/little_endian.h"
#include "data/image/codecs.h"
#include "data/image/exif_orientation.h"
#include "data/image/jpeg/baseline_header.h"
#include "data/prepare/packed_image.h"
#include "tests/fuzz/fuzz_target.h"

namespace dtrain::fuzz {
namespace {

// An image of any format, decoded as for validation, and its EXIF data.
FUZZ_TARGET(image) {
  constexpr int64_t kMostPixels = 1 << 22;  // larger images are slow and take the same code
  const int orientation = data::ExifOrientation(whole);
  Require(orientation >= 1 && orientation <= 8, "an orientation that EXIF does not have");
  try {
    const data::ImageSize said = data::ReadImageSize(whole);
    if (int64_t{said.width} * said.height > kMostPixels) return;
    const cv::Mat image = data::DecodeImage(whole);
    Require(image.cols == said.width && image.rows == said.height && image.type() == CV_8UC3,
            "an image that is not what its header says");
  } catch (const DataError&) {
    return;
  }
}

constexpr int kSide = 32;
constexpr int64_t kMostPixels = 1 << 22;  // larger images are slow and take the same code

// Returns a box inside the image, for any four bytes.
data::CropBox BoxIn(data::ImageSize size, std::span<const uint8_t> place) {
  const auto part = [&](size_t i, int whole) { return i < place.size() ? whole * place[i] / 256 : 0; };
  data::CropBox box{part(0, size.width), part(1, size.height), 0, 0};
  box.width = 1 + part(2, size.width - box.x);
  box.height = 1 + part(3, size.height - box.y);
  box.width = std::min(box.width, size.width - box.x);
  box.height = std::min(box.height, size.height - box.y);
  return box;
}

bool IsSmall(data::ImageSize size) { return int64_t{size.width} * size.height <= kMostPixels; }

// Returns the crop by our decoder, or nothing if it leaves the file to the library.
std::vector<uint8_t> OwnDecoder(std::span<const uint8_t> bytes, std::span<const uint8_t> place) {
  const auto header = data::ReadBaselineHeader(bytes);
  if (!header) return {};
  data::RequireSaneSize(header->size);
  data::RequireJpegHolds(header->size, bytes.size());
  if (!IsSmall(header->size)) return {};
  std::vector<uint8_t> row(3 * kSide * kSide);
  const bool flip = !place.empty() && place[0] % 2 == 1;
  const data::CropBox box = BoxIn(header->size, place);
  const bool good = data::CropBaselineJpeg(*header, box, flip, data::Interpolation::kBilinear, kSide, row.data());
  return good ? row : std::vector<uint8_t>();
}

void Library(std::span<const uint8_t> bytes, std::span<const uint8_t> place) {
  const data::ImageSize size = data::ReadImageSize(bytes);
  if (!IsSmall(size)) return;
  const data::CropBox box = BoxIn(size, place);
  const cv::Mat region = data::DecodeRegion(bytes, box, {kSide, kSide});
  Require(region.cols > 0 && region.cols <= box.width && region.rows > 0 && region.rows <= box.height,
          "a region that is not the box");
}

void Decode(std::span<const uint8_t> bytes, std::span<const uint8_t> place) {
  try {
    OwnDecoder(bytes, place);
  } catch (const DataError&) {
    // The library's result for the same file is checked as well.
  }
  Library(bytes, place);
}

// Returns the file with seek points. Decoding with them must give the same pixels as decoding from the front.
std::vector<uint8_t> Seekable(std::span<const uint8_t> bytes, std::span<const uint8_t> place) {
  if (!IsSmall(data::ReadImageSize(bytes))) return {};
  const std::vector<uint8_t> original(bytes.begin(), bytes.end());
  std::vector<uint8_t> seekable = data::MakeSeekable(original);
  const auto before = OwnDecoder(original, place), after = OwnDecoder(seekable, place);
  Require(before.empty() || before == after, "seek points change the pixels");
  return seekable;
}

// The segment ends with a CRC (data/FORMAT.md).
void FixSeekPoints(std::vector<uint8_t>& bytes) {
  constexpr std::string_view kName = "dtrain seek 1";
  const auto found = std::search(bytes.begin(), bytes.end(), kName.begin(), kName.end());
  const auto begin = static_cast<size_t>(found - bytes.begin());
  if (found == bytes.end() || begin < 2) return;
  const size_t length = bytes[begin - 2] << 8 | bytes[begin - 1];  // includes its own two bytes
  if (length < 2 + sizeof(uint32_t) || length - 2 > bytes.size() - begin) return;
  const size_t checked = length - 2 - sizeof(uint32_t);
  std::string crc;
  data::AppendLittleEndian(data::Crc32c(&bytes[begin], checked), crc);
  std::copy(crc.begin(), crc.end(), found + static_cast<ptrdiff_t>(checked));
}

// A JPEG, decoded as for training: a crop of it by our decoder and by libjpeg-turbo. The first four bytes place the
// crop. If the fifth byte is odd, the file is first rewritten with seek points, as by `dtrain_data pack`; then the byte
// at the place given by the next two bytes is changed by the one after them, and if the second bit of the fifth byte is
// set, the checksum of the seek points is corrected afterwards.
FUZZ_TARGET(jpeg) {
  FuzzInput input(whole);
  const auto place = input.Take(4);
  const uint8_t mode = input.TakeByte();
  const bool rewrite = mode % 2 == 1;
  const size_t at = input.TakeShort();
  const uint8_t change = input.TakeByte();
  try {
    std::vector<uint8_t> bytes(input.rest().begin(), input.rest().end());
    if (rewrite) bytes = Seekable(bytes, place);
    if (rewrite && !bytes.empty()) bytes[at % bytes.size()] ^= change;
    if ((mode & 2) != 0) FixSeekPoints(bytes);
    Decode(bytes, place);
  } catch (const DataError&) {
    return;
  }
}

}  // namespace
}  // namespace dtrain::fuzz
