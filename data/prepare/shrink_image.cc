#include "data/prepare/shrink_image.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

// jpeglib.h uses FILE and size_t without including them.
#include <jpeglib.h>

#include "data/error.h"
#include "data/image/crop.h"
#include "data/image/decode.h"
#include "data/image/resize.h"

namespace dtrain::data {
namespace {

[[noreturn]] void ThrowError(j_common_ptr jpeg) {
  char message[JMSG_LENGTH_MAX];
  (*jpeg->err->format_message)(jpeg, message);
  throw DataError(std::string("cannot be written as JPEG: ") + message);
}

// The library is compiled with unwind tables, and the objects that an exception passes are destroyed by RAII.
class Compressor {
 public:
  Compressor() {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = ThrowError;
    jpeg_create_compress(&jpeg_);
  }
  ~Compressor() {
    jpeg_destroy_compress(&jpeg_);
    std::free(buffer_);  // NOLINT(cppcoreguidelines-no-malloc): libjpeg's
  }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  std::vector<uint8_t> Encode(const cv::Mat& image, int quality) {
    jpeg_mem_dest(&jpeg_, &buffer_, &bytes_);
    jpeg_.image_width = static_cast<JDIMENSION>(image.cols);
    jpeg_.image_height = static_cast<JDIMENSION>(image.rows);
    jpeg_.input_components = 3;
    jpeg_.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg_);
    jpeg_set_quality(&jpeg_, quality, TRUE);
    jpeg_.optimize_coding = TRUE;  // a few percent smaller, decoded as fast
    jpeg_start_compress(&jpeg_, TRUE);
    while (jpeg_.next_scanline < jpeg_.image_height) {
      auto* row = const_cast<JSAMPLE*>(image.ptr<uint8_t>(static_cast<int>(jpeg_.next_scanline)));
      jpeg_write_scanlines(&jpeg_, &row, 1);
    }
    jpeg_finish_compress(&jpeg_);
    return {buffer_, buffer_ + bytes_};
  }

 private:
  jpeg_compress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  unsigned char* buffer_ = nullptr;
  unsigned long bytes_ = 0;
};

}  // namespace

void UseOneThreadEach() { at::set_num_threads(1); }

std::vector<uint8_t> ShrinkImage(std::vector<uint8_t> encoded, int short_side, int quality) {
  const ImageSize size = ReadImageSize(encoded);
  if (std::min(size.width, size.height) <= short_side) return encoded;
  const c10::InferenceMode inference;
  const ImageSize target = ResizeShortSide(size, short_side);
  const cv::Mat image = Resize(DecodeImage(encoded), target.width, target.height, Interpolation::kBilinear);
  return Compressor().Encode(image, quality);
}

}  // namespace dtrain::data
