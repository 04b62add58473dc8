#include "tests/data/image/encode.h"

#include <png.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

// clang-format off: jpeglib.h needs size_t and FILE from <cstdio>
#include <jpeglib.h>
// clang-format on

namespace dtrain::data {

cv::Mat TestPicture(int width, int height) {
  cv::Mat image(height, width, CV_8UC3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      uint8_t* pixel = image.ptr<uint8_t>(y) + 3 * x;
      pixel[0] = static_cast<uint8_t>(128 + 100 * std::sin(x / 17.0 + y / 31.0));
      pixel[1] = static_cast<uint8_t>(128 + 90 * std::cos(x / 23.0 - y / 11.0));
      pixel[2] = static_cast<uint8_t>((x / 40 + y / 40) % 2 == 0 ? 60 : 190);
    }
  }
  return image;
}

std::vector<uint8_t> EncodeJpeg(const cv::Mat& image, const JpegOptions& options) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  errors.error_exit = [](j_common_ptr) { throw std::runtime_error("not written"); };
  errors.emit_message = [](j_common_ptr, int) {};
  jpeg_create_compress(&jpeg);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  std::vector<uint8_t> bytes;
  try {
    jpeg_mem_dest(&jpeg, &buffer, &size);
    jpeg.image_width = static_cast<JDIMENSION>(image.cols);
    jpeg.image_height = static_cast<JDIMENSION>(image.rows);
    jpeg.input_components = image.channels();
    jpeg.in_color_space = image.channels() == 1 ? JCS_GRAYSCALE : image.channels() == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    if (options.colours == "rgb") jpeg_set_colorspace(&jpeg, JCS_RGB);
    if (options.colours == "ycck") jpeg_set_colorspace(&jpeg, JCS_YCCK);
    jpeg_set_quality(&jpeg, options.quality, FALSE);
    for (int c = 0; c < jpeg.num_components; ++c) {
      const int usual = options.subsample && image.channels() == 3 && c == 0 ? 2 : 1;
      const int across = options.across[static_cast<size_t>(c)], down = options.down[static_cast<size_t>(c)];
      jpeg.comp_info[c].h_samp_factor = across > 0 ? across : usual;
      jpeg.comp_info[c].v_samp_factor = down > 0 ? down : usual;
    }
    jpeg.optimize_coding = static_cast<boolean>(options.optimised);
    jpeg.arith_code = static_cast<boolean>(options.arithmetic);
    if (options.progressive) jpeg_simple_progression(&jpeg);
    jpeg.restart_interval = static_cast<unsigned>(options.restart_units);
    jpeg.restart_in_rows = options.restart_rows;
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
      auto* row = const_cast<JSAMPROW>(image.ptr<uint8_t>(static_cast<int>(jpeg.next_scanline)));
      jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    bytes.assign(buffer, buffer + size);
  } catch (const std::runtime_error&) {
    bytes.clear();
  }
  jpeg_destroy_compress(&jpeg);
  std::free(buffer);
  return bytes;
}

std::vector<uint8_t> EncodePng(int width, int height, const std::vector<std::vector<uint8_t>>& rows,
                               const PngOptions& options) {
  std::vector<uint8_t> bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &bytes,
      [](png_structp self, png_bytep data, size_t size) {
        auto* out = static_cast<std::vector<uint8_t>*>(png_get_io_ptr(self));
        out->insert(out->end(), data, data + size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), options.bit_depth,
               options.color_type, options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  std::vector<png_bytep> pointers;
  for (const auto& row : rows) pointers.push_back(const_cast<png_bytep>(row.data()));
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

}  // namespace dtrain::data
