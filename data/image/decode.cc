#include "data/image/decode.h"

#include <string>
#include <string_view>

#include "data/error.h"
#include "data/image/codecs.h"

namespace dtrain::data {
namespace {

constexpr int64_t kMostPixels = 178'956'970;
constexpr int64_t kMostJpegPixelsPerByte = 1024;  // one bit for each 8×8 block gives 512; doubled for unusual files

struct Codec {
  ImageSize (*size)(Bytes);
  cv::Mat (*decode)(Bytes);
  cv::Mat (*decode_region)(Bytes, const CropBox&, ImageSize target) = nullptr;  // null: what is decoded is cropped
  void (*require_holds)(ImageSize, size_t bytes) = nullptr;                     // null: any size may be of any file
};

// Returns the name of a format that is known but not read; otherwise nothing. HEIC and AVIF are brands of one
// container.
std::string_view UnreadFormat(std::string_view text) {
  if (text.starts_with("GIF8")) return "GIF";
  if (text.size() < 12 || text.substr(4, 4) != "ftyp") return "";
  const std::string_view brand = text.substr(8, 4);
  if (brand == "avif" || brand == "avis") return "AVIF";
  return brand == "mif1" || brand == "msf1" || brand.starts_with("he") ? "HEIC" : "";
}

Codec CodecOf(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.empty()) throw DataError("the file is empty");
  if (text.starts_with("\xFF\xD8\xFF")) return {JpegSize, DecodeJpeg, DecodeJpegRegion, RequireJpegHolds};
  if (text.starts_with("\x89PNG\r\n\x1A\n")) return {PngSize, DecodePng};
  if (text.starts_with("RIFF") && text.substr(0, 12).ends_with("WEBP")) return {WebpSize, DecodeWebp};
  if (text.starts_with(std::string_view("II*\0", 4)) || text.starts_with(std::string_view("MM\0*", 4))) {
    return {TiffSize, DecodeTiff};
  }
  if (text.starts_with("BM")) return {BmpSize, DecodeBmp};
  if (text.starts_with("P5") || text.starts_with("P6")) return {PnmSize, DecodePnm};
  if (const std::string_view name = UnreadFormat(text); !name.empty()) {
    throw DataError(std::string(name) + " images are not read; convert them, as with magick mogrify -format jpg FILES");
  }
  throw DataError("not an image of a known format (JPEG, PNG, WebP, TIFF, BMP, binary PPM or PGM)");
}

ImageSize CheckedSize(const Codec& codec, Bytes bytes) {
  const ImageSize size = codec.size(bytes);
  RequireSaneSize(size);
  if (codec.require_holds != nullptr) codec.require_holds(size, bytes.size());
  return size;
}

}  // namespace

void RequireSaneSize(ImageSize size) {
  const std::string text = std::to_string(size.width) + "×" + std::to_string(size.height);
  if (size.width < 1 || size.height < 1) throw DataError("an image of " + text + " pixels");
  if (size.width > kLongestSide || size.height > kLongestSide || int64_t{size.width} * size.height > kMostPixels) {
    throw DataError("an image of " + text + " pixels is too large (at most 178,956,970 pixels, 65,500 a side)");
  }
}

void RequireJpegHolds(ImageSize size, size_t bytes) {
  if (int64_t{size.width} * size.height <= kMostJpegPixelsPerByte * static_cast<int64_t>(bytes)) return;
  throw DataError("a JPEG of " + std::to_string(bytes) + " bytes cannot hold " + std::to_string(size.width) + "×" +
                  std::to_string(size.height) + " pixels");
}

ImageSize ReadImageSize(std::span<const uint8_t> bytes) { return CheckedSize(CodecOf(bytes), bytes); }

cv::Mat DecodeImage(std::span<const uint8_t> bytes) {
  const Codec codec = CodecOf(bytes);
  CheckedSize(codec, bytes);
  return codec.decode(bytes);
}

cv::Mat DecodeRegion(std::span<const uint8_t> bytes, const CropBox& box, ImageSize target) {
  const Codec codec = CodecOf(bytes);
  CheckedSize(codec, bytes);
  if (codec.decode_region != nullptr) return codec.decode_region(bytes, box, target);
  return codec.decode(bytes)(cv::Rect(box.x, box.y, box.width, box.height));
}

}  // namespace dtrain::data
