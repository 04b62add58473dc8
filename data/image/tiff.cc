// TIFF, by libtiff, which reads from memory through functions.
#include <tiffio.h>

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

namespace dtrain::data {
namespace {

using std::string_view_literals::operator""sv;

// libtiff allocates whole strips or tiles by what the header says, whatever the size of the file.
constexpr tmsize_t kMostBytes = tmsize_t{2} << 30;
constexpr uint16_t kMostSamples = 8;  // of a pixel

class TiffReader {
 public:
  explicit TiffReader(Bytes bytes) : bytes_(bytes) {
    const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                               TIFFOpenOptionsFree);
    TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMostBytes);
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), OnError, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), OnWarning, this);
    tiff_.reset(TIFFClientOpenExt("image", "rm", this, OnRead, OnWrite, OnSeek, OnClose, OnSize, OnMap, OnUnmap,
                                  options.get()));
    if (!tiff_) Fail();
    uint16_t samples = 1;
    TIFFGetFieldDefaulted(tiff_.get(), TIFFTAG_SAMPLESPERPIXEL, &samples);
    if (samples > kMostSamples) throw DataError("TIFF: " + std::to_string(samples) + " samples a pixel");
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

ImageSize TiffSize(Bytes bytes) { return TiffReader(bytes).size(); }

cv::Mat DecodeTiff(Bytes bytes) { return TiffReader(bytes).Decode(); }

}  // namespace

extern const Codec kTiff = {.name = "TIFF",
                            .extensions = {".tif", ".tiff"},
                            .beginnings = {"II*\0"sv, "MM\0*"sv},
                            .size = TiffSize,
                            .decode = DecodeTiff,
                            .is_also_of_cameras = true};

}  // namespace dtrain::data
