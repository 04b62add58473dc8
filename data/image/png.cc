// PNG through libpng's low-level interface: the simplified one applies gamma and takes no limits on sizes. Errors are
// thrown through libpng, as through libjpeg (jpeg.cc).
#include <png.h>

#include <cstring>
#include <string>
#include <vector>

#include "data/error.h"
#include "data/image/codecs.h"
#include "data/image/exif_orientation.h"

namespace dtrain::data {
namespace {

constexpr png_alloc_size_t kLargestChunk = 16 << 20;  // bytes; for the chunks that libpng keeps (profiles, texts)
constexpr uint64_t kMostInflation = 1032;             // the most bytes to which deflate expands one

// Throws DataError if a chunk before the pixels is truncated: libpng allocates a chunk, up to 2 GiB, before it reads
// it.
void RequireWholeChunks(Bytes bytes) {
  constexpr size_t kAround = 12;  // length, type and checksum
  for (size_t at = 8; at + 8 <= bytes.size();) {
    if (std::memcmp(bytes.data() + at + 4, "IDAT", 4) == 0) return;
    const size_t length = size_t{bytes[at]} << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
    if (length + kAround > bytes.size() - at) throw DataError("PNG: the file is truncated");
    at += length + kAround;
  }
}

// Frees what libpng allocated, also when the constructor of the reader throws.
struct PngStructs {
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  ~PngStructs() { png_destroy_read_struct(&png_, &info_, nullptr); }
};

class PngReader : PngStructs {
 public:
  explicit PngReader(Bytes bytes) : unread_(bytes), bytes_(bytes.size()) {
    RequireWholeChunks(bytes);
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, OnError, OnWarning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) throw std::bad_alloc();
    // Texts and profiles are not even inflated: a thousand of them may be small in the file and large in memory.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_read_fn(png_, this, OnRead);
    png_set_user_limits(png_, kLongestSide, kLongestSide);
    png_set_chunk_malloc_max(png_, kLargestChunk);
    png_read_info(png_, info_);
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  ImageSize size() const {
    return {static_cast<int>(png_get_image_width(png_, info_)), static_cast<int>(png_get_image_height(png_, info_))};
  }

  cv::Mat Decode() {
    // Refuses before any allocation if the file is too short for so many pixels.
    if (uint64_t{png_get_rowbytes(png_, info_)} * png_get_image_height(png_, info_) > kMostInflation * bytes_) {
      throw DataError("PNG: the file is truncated");
    }
    AskForRgb();
    const auto [width, height] = size();
    if (png_get_rowbytes(png_, info_) != 3 * static_cast<size_t>(width)) throw DataError("PNG: unknown colour type");
    cv::Mat image(height, width, CV_8UC3);
    std::vector<png_bytep> rows(static_cast<size_t>(height));
    for (int y = 0; y < height; ++y) rows[static_cast<size_t>(y)] = image.ptr<uint8_t>(y);
    png_read_image(png_, rows.data());
    return image;
  }

 private:
  static void OnError(png_structp /*png*/, png_const_charp message) { throw DataError(std::string("PNG: ") + message); }
  static void OnWarning(png_structp /*png*/, png_const_charp /*message*/) {}
  static void OnRead(png_structp png, png_bytep destination, size_t size) {
    auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
    if (size > reader->unread_.size()) png_error(png, "the file is truncated");
    std::memcpy(destination, reader->unread_.data(), size);
    reader->unread_ = reader->unread_.subspan(size);
  }

  void AskForRgb() {
    png_set_strip_16(png_);  // keeps the high byte
    png_set_expand(png_);    // palettes and small depths to 8 bits; transparent colours to alpha
    png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
  }

  Bytes unread_;
  const uint64_t bytes_;
};

int PngOrientation(Bytes bytes) { return OrientationInChunks(bytes, /*is_png=*/true); }

ImageSize PngSize(Bytes bytes) { return PngReader(bytes).size(); }

cv::Mat DecodePng(Bytes bytes) { return PngReader(bytes).Decode(); }

}  // namespace

extern const Codec kPng = {.name = "PNG",
                           .extensions = {".png"},
                           .beginnings = {"\x89PNG\r\n\x1A\n"},
                           .size = PngSize,
                           .decode = DecodePng,
                           .orientation = PngOrientation};

std::vector<uint8_t> WritePng(const uint8_t* pixels, int64_t width, int64_t height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<uint8_t> encoded(bytes);
  if (png_image_write_to_memory(&image, encoded.data(), &bytes, /*convert_to_8_bit=*/0, pixels, /*row_stride=*/0,
                                /*colormap=*/nullptr) == 0) {
    throw DataError(std::string("cannot be written as PNG: ") + image.message);
  }
  encoded.resize(bytes);
  return encoded;
}

}  // namespace dtrain::data
