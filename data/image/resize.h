// Antialiased resizing by ATen's uint8 kernels: the filter of torchvision (and Pillow) to the bit, and several times
// faster than OpenCV's INTER_AREA. Callers in worker threads set at::set_num_threads(1) once.
#pragma once

#include <opencv2/core/mat.hpp>

#include "data/image/resample.h"

namespace dtrain::data {

// Resizes `image` (CV_8UC3, rows may be strided) to width × height. Returns a continuous image that owns its pixels.
cv::Mat Resize(const cv::Mat& image, int width, int height, Interpolation interpolation);

}  // namespace dtrain::data
