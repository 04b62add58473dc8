#include "trainer/tasks/picture_grid.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "data/image/codecs.h"

namespace dtrain::tasks {
namespace {

constexpr int64_t kMostPictures = 64;
constexpr int64_t kColumns = 8;
constexpr int64_t kGap = 2;  // pixels

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
  const std::vector<uint8_t> png = data::WritePng(grid.const_data_ptr<uint8_t>(), grid.size(1), grid.size(0));
  report::Picture picture;
  picture.width = static_cast<int>(grid.size(1));
  picture.height = static_cast<int>(grid.size(0));
  picture.png.assign(png.begin(), png.end());
  return picture;
}

}  // namespace dtrain::tasks
