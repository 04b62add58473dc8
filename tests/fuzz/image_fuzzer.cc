// An image of any format, decoded as for validation, and its EXIF data.
#include "data/error.h"
#include "data/image/codecs.h"
#include "data/image/exif_orientation.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dtrain;
  constexpr int64_t kMostPixels = 1 << 22;  // larger images are slow and take the same code
  const int orientation = data::ExifOrientation({data, size});
  fuzz::Require(orientation >= 1 && orientation <= 8, "an orientation that EXIF does not have");
  try {
    const data::ImageSize said = data::ReadImageSize({data, size});
    if (int64_t{said.width} * said.height > kMostPixels) return 0;
    const cv::Mat image = data::DecodeImage({data, size});
    fuzz::Require(image.cols == said.width && image.rows == said.height && image.type() == CV_8UC3,
                  "an image that is not what its header says");
  } catch (const DataError&) {
    return 0;
  }
  return 0;
}
