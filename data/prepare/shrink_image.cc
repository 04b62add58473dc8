#include "data/prepare/shrink_image.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "data/image/crop.h"
#include "data/image/decode.h"
#include "data/image/exif_orientation.h"
#include "data/image/resize.h"
#include "data/prepare/jpeg_writer.h"

namespace dtrain::data {
void UseOneThreadEach() { at::set_num_threads(1); }

std::vector<uint8_t> ShrinkImage(std::vector<uint8_t> encoded, int short_side, int quality) {
  const ImageSize size = ReadImageSize(encoded);
  if (std::min(size.width, size.height) <= short_side) return encoded;
  const c10::InferenceMode inference;
  const ImageSize target = ResizeShortSide(size, short_side);
  const cv::Mat image = Resize(DecodeImage(encoded), target.width, target.height, Interpolation::kBilinear);
  return WithOrientationOf(encoded, WriteJpeg(image, quality));  // the pixels stay as they were stored
}

}  // namespace dtrain::data
