#include "data/image/resize.h"

#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/from_blob.h>

#include <cstring>

namespace dtrain::data {

cv::Mat Resize(const cv::Mat& image, int width, int height, Interpolation interpolation) {
  if (image.cols == width && image.rows == height) return image.clone();
  const cv::Mat dense = image.isContinuous() ? image : image.clone();
  // The rows of an image are a channels_last batch of one: this layout selects ATen's vectorised uint8 kernel.
  const int64_t row = 3 * int64_t{dense.cols};
  const at::Tensor source =
      at::from_blob(dense.data, {1, 3, dense.rows, dense.cols}, {row * dense.rows, 1, row, 3}, at::kByte);
  const at::Tensor resized = interpolation == Interpolation::kBilinear
                                 ? at::_upsample_bilinear2d_aa(source, {height, width}, /*align_corners=*/false)
                                 : at::_upsample_bicubic2d_aa(source, {height, width}, /*align_corners=*/false);
  const at::Tensor rows = resized.permute({0, 2, 3, 1}).contiguous();
  cv::Mat result(height, width, CV_8UC3);
  std::memcpy(result.data, rows.const_data_ptr<uint8_t>(), static_cast<size_t>(rows.numel()));
  return result;
}

}  // namespace dtrain::data
