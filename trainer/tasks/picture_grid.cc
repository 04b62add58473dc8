#include "trainer/tasks/picture_grid.h"

#include <ATen/ATen.h>
#include <png.h>

#include <algorithm>
#include <stdexcept>

namespace dtrain::loop {
namespace {

constexpr int64_t kMostPictures = 64;
constexpr int64_t kColumns = 8;
constexpr int64_t kGap = 2;  // pixels

// `pixels`: uint8 H×W×3, contiguous.
report::Picture PngOf(const at::Tensor& pixels) {
  report::Picture picture;
  picture.width = static_cast<int>(pixels.size(1));
  picture.height = static_cast<int>(pixels.size(0));
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  picture.png.resize(bytes);
  if (png_image_write_to_memory(&image, picture.png.data(), &bytes, /*convert_to_8_bit=*/0,
                                pixels.const_data_ptr<uint8_t>(), /*row_stride=*/0, /*colormap=*/nullptr) == 0) {
    throw std::runtime_error(std::string("libpng: ") + image.message);
  }
  picture.png.resize(bytes);
  return picture;
}

}  // namespace

report::Picture PictureGrid(const at::Tensor& images) {
  const int64_t count = std::min(images.size(0), kMostPictures);
  const int64_t columns = std::min(count, kColumns), rows = (count + columns - 1) / columns;
  const int64_t height = images.size(1), width = images.size(2);
  at::Tensor grid = at::zeros({rows * (height + kGap) - kGap, columns * (width + kGap) - kGap, 3}, at::kByte);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t top = i / columns * (height + kGap), left = i % columns * (width + kGap);
    grid.slice(0, top, top + height).slice(1, left, left + width).copy_(images[i]);
  }
  return PngOf(grid);
}

}  // namespace dtrain::loop
