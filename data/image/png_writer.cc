// Uses libpng's simplified interface, which is enough for writing 8-bit RGB.
#include "data/image/png_writer.h"

#include <png.h>

#include <string>

#include "data/error.h"

namespace dtrain::data {

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
