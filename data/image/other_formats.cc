// The rarer formats. Each uses a library, except PNM, which is too simple to need one.
#include <tiffio.h>
#include <webp/decode.h>

#include <algorithm>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/error.h"
#include "data/image/codecs.h"
#include "data/image/exif_orientation.h"

#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#include <stb_image.h>

namespace dtrain::data {
namespace {

using std::string_view_literals::operator""sv;

// --- TIFF, read from memory ---

class TiffReader {
 public:
  explicit TiffReader(Bytes bytes) : bytes_(bytes) {
    const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                               TIFFOpenOptionsFree);
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), OnError, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), OnWarning, this);
    tiff_.reset(TIFFClientOpenExt("image", "rm", this, OnRead, OnWrite, OnSeek, OnClose, OnSize, OnMap, OnUnmap,
                                  options.get()));
    if (!tiff_) Fail();
  }

  ImageSize size() {
    uint32_t width = 0, height = 0;
    TIFFGetField(tiff_.get(), TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(tiff_.get(), TIFFTAG_IMAGELENGTH, &height);
    if (orientation() > ORIENTATION_BOTLEFT) std::swap(width, height);  // rows are stored as columns
    const uint32_t most = INT_MAX;
    return {static_cast<int>(std::min(width, most)), static_cast<int>(std::min(height, most))};
  }

  // Like Pillow, drops alpha and turns the image as its orientation says.
  cv::Mat Decode() {
    KeepColoursFromAlpha();
    auto [width, height] = size();
    if (orientation() > ORIENTATION_BOTLEFT) std::swap(width, height);
    cv::Mat packed(height, width, CV_32SC1);  // four bytes a pixel: A, B, G, R from the highest
    if (TIFFReadRGBAImageOriented(tiff_.get(), static_cast<uint32_t>(width), static_cast<uint32_t>(height),
                                  reinterpret_cast<uint32_t*>(packed.data), orientation(), 1) != 1 ||
        message_[0] != '\0') {
      Fail();
    }
    cv::Mat image(height, width, CV_8UC3);
    for (int y = 0; y < height; ++y) {
      const auto* from = packed.ptr<uint32_t>(y);
      auto* to = image.ptr<uint8_t>(y);
      for (int x = 0; x < width; ++x, to += 3) {
        to[0] = static_cast<uint8_t>(TIFFGetR(from[x]));
        to[1] = static_cast<uint8_t>(TIFFGetG(from[x]));
        to[2] = static_cast<uint8_t>(TIFFGetB(from[x]));
      }
    }
    return Upright(image, orientation());
  }

 private:
  [[noreturn]] void Fail() const { throw DataError(std::string("TIFF: ") + (message_[0] ? message_ : "unreadable")); }

  // Returns 1 to 8, as in EXIF. libtiff would mirror images, but not turn them.
  int orientation() {
    uint16_t value = ORIENTATION_TOPLEFT;
    TIFFGetField(tiff_.get(), TIFFTAG_ORIENTATION, &value);
    return value <= ORIENTATION_LEFTBOT ? std::max<int>(value, ORIENTATION_TOPLEFT) : ORIENTATION_TOPLEFT;
  }

  // libtiff multiplies colours by their alpha unless that seems to be done already.
  void KeepColoursFromAlpha() {
    uint16_t count = 0;
    const uint16_t* kinds = nullptr;
    if (TIFFGetField(tiff_.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds) != 1 || count == 0) return;
    std::vector<uint16_t> multiplied(kinds, kinds + count);
    std::replace(multiplied.begin(), multiplied.end(), uint16_t{EXTRASAMPLE_UNASSALPHA},
                 uint16_t{EXTRASAMPLE_ASSOCALPHA});
    TIFFSetField(tiff_.get(), TIFFTAG_EXTRASAMPLES, count, multiplied.data());
  }

  static int OnError(TIFF* /*tiff*/, void* self, const char* /*module*/, const char* format, va_list arguments) {
    auto& message = static_cast<TiffReader*>(self)->message_;
    if (message[0] == '\0') std::vsnprintf(message, sizeof message, format, arguments);
    return 1;
  }
  static int OnWarning(TIFF* /*tiff*/, void* /*self*/, const char* /*module*/, const char* /*format*/, va_list) {
    return 1;
  }
  static tmsize_t OnRead(thandle_t self, void* destination, tmsize_t size) {
    auto* reader = static_cast<TiffReader*>(self);
    const uint64_t left = reader->bytes_.size() - std::min<uint64_t>(reader->position_, reader->bytes_.size());
    const uint64_t count = std::min(left, static_cast<uint64_t>(std::max<tmsize_t>(size, 0)));
    if (count > 0) std::memcpy(destination, reader->bytes_.data() + reader->position_, count);
    reader->position_ += count;
    return static_cast<tmsize_t>(count);
  }
  static tmsize_t OnWrite(thandle_t /*self*/, void* /*source*/, tmsize_t /*size*/) { return 0; }
  static toff_t OnSeek(thandle_t self, toff_t offset, int whence) {
    auto* reader = static_cast<TiffReader*>(self);
    const uint64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? reader->position_ : reader->bytes_.size();
    return reader->position_ = base + offset;
  }
  static int OnClose(thandle_t /*self*/) { return 0; }
  static toff_t OnSize(thandle_t self) { return static_cast<TiffReader*>(self)->bytes_.size(); }
  static int OnMap(thandle_t /*self*/, void** /*base*/, toff_t* /*size*/) { return 0; }
  static void OnUnmap(thandle_t /*self*/, void* /*base*/, toff_t /*size*/) {}

  Bytes bytes_;
  uint64_t position_ = 0;
  char message_[256] = "";
  std::unique_ptr<TIFF, void (*)(TIFF*)> tiff_{nullptr, TIFFClose};
};

// --- PNM ---

struct PnmHeader {
  int channels = 0, width = 0, height = 0, highest = 0;
  size_t pixels_begin = 0;
};

PnmHeader ReadPnmHeader(Bytes bytes) {
  PnmHeader header;
  header.channels = bytes[1] == '6' ? 3 : 1;
  size_t position = 2;
  for (int* value : {&header.width, &header.height, &header.highest}) {
    const auto at = [&] { return position < bytes.size() ? bytes[position] : uint8_t{0}; };
    while (std::strchr(" \t\r\n\v\f#", at()) != nullptr && at() != 0) {
      if (at() == '#') {
        while (at() != '\n' && at() != 0) ++position;
      } else {
        ++position;
      }
    }
    int digits = 0;
    for (; at() >= '0' && at() <= '9' && digits < 9; ++digits, ++position) *value = *value * 10 + (at() - '0');
    if (digits == 0) throw DataError("PNM: a damaged header");
  }
  header.pixels_begin = position + 1;  // exactly one white-space character
  if (header.highest < 1 || header.highest > 65535) throw DataError("PNM: a damaged header");
  return header;
}

ImageSize TiffSize(Bytes bytes) { return TiffReader(bytes).size(); }

cv::Mat DecodeTiff(Bytes bytes) { return TiffReader(bytes).Decode(); }

int WebpOrientation(Bytes bytes) { return OrientationInChunks(bytes, /*is_png=*/false); }

ImageSize WebpSize(Bytes bytes) {
  int width = 0, height = 0;
  if (WebPGetInfo(bytes.data(), bytes.size(), &width, &height) == 0) throw DataError("WebP: a damaged header");
  return {width, height};
}

cv::Mat DecodeWebp(Bytes bytes) {
  const auto [width, height] = WebpSize(bytes);
  cv::Mat image(height, width, CV_8UC3);
  const size_t size = image.total() * 3;
  if (WebPDecodeRGBInto(bytes.data(), bytes.size(), image.data, size, 3 * width) == nullptr) {
    throw DataError("WebP: damaged, truncated or an animation");
  }
  return image;
}

ImageSize BmpSize(Bytes bytes) {
  int width = 0, height = 0, channels = 0;
  if (bytes.size() > INT_MAX) throw DataError("BMP: the file has more than 2 GiB");
  if (stbi_info_from_memory(bytes.data(), static_cast<int>(bytes.size()), &width, &height, &channels) == 0) {
    throw DataError(std::string("BMP: ") + stbi_failure_reason());
  }
  // stb_image knows only uncompressed images, and reads zeros beyond the end of a truncated file.
  uint32_t pixels_begin = 0;
  uint16_t bits = 0;
  if (bytes.size() >= 30) {
    std::memcpy(&pixels_begin, bytes.data() + 10, 4);
    const bool old_header = bytes[14] == 12;
    std::memcpy(&bits, bytes.data() + (old_header ? 24 : 28), 2);
  }
  const uint64_t row_bytes = (static_cast<uint64_t>(width) * bits + 31) / 32 * 4;
  if (bits == 0 || pixels_begin + row_bytes * static_cast<uint64_t>(height) > bytes.size()) {
    throw DataError("BMP: the file is truncated");
  }
  return {width, height};
}

cv::Mat DecodeBmp(Bytes bytes) {
  int width = 0, height = 0, channels = 0;
  const std::unique_ptr<uint8_t, void (*)(void*)> pixels(
      stbi_load_from_memory(bytes.data(), static_cast<int>(bytes.size()), &width, &height, &channels, 3),
      stbi_image_free);
  if (!pixels) throw DataError(std::string("BMP: ") + stbi_failure_reason());
  return cv::Mat(height, width, CV_8UC3, pixels.get()).clone();
}

ImageSize PnmSize(Bytes bytes) {
  const PnmHeader header = ReadPnmHeader(bytes);
  return {header.width, header.height};
}

cv::Mat DecodePnm(Bytes bytes) {
  const PnmHeader header = ReadPnmHeader(bytes);
  const size_t sample_bytes = header.highest > 255 ? 2 : 1;
  const size_t samples = static_cast<size_t>(header.channels) * header.width * header.height;
  if (bytes.size() < header.pixels_begin || bytes.size() - header.pixels_begin < samples * sample_bytes) {
    throw DataError("PNM: the file is truncated");
  }
  const uint8_t* from = bytes.data() + header.pixels_begin;
  cv::Mat image(header.height, header.width, CV_8UC3);
  uint8_t* to = image.data;
  for (size_t i = 0; i < samples; ++i, from += sample_bytes) {
    const int value = std::min(header.highest, sample_bytes == 2 ? from[0] << 8 | from[1] : int{from[0]});
    const auto pixel = static_cast<uint8_t>((value * 255 + header.highest / 2) / header.highest);
    for (int copy = 0; copy < 3 / header.channels; ++copy) *to++ = pixel;  // grey: three times
  }
  return image;
}

}  // namespace

extern const Codec kTiff = {.name = "TIFF",
                            .extensions = {".tif", ".tiff"},
                            .beginnings = {"II*\0"sv, "MM\0*"sv},
                            .size = TiffSize,
                            .decode = DecodeTiff,
                            .is_also_of_cameras = true};
extern const Codec kWebp = {.name = "WebP",
                            .extensions = {".webp"},
                            .beginnings = {"RIFF????WEBP"},
                            .size = WebpSize,
                            .decode = DecodeWebp,
                            .orientation = WebpOrientation,
                            .exif_is_last = true};
extern const Codec kBmp = {"BMP", {".bmp"}, {"BM"}, BmpSize, DecodeBmp};
extern const Codec kPpm = {"binary PPM", {".ppm"}, {"P6"}, PnmSize, DecodePnm};
extern const Codec kPgm = {"binary PGM", {".pgm"}, {"P5"}, PnmSize, DecodePnm};

}  // namespace dtrain::data
