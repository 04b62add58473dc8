// A JPEG, decoded as for training: a crop of it, by the own decoder and by libjpeg-turbo. The first four bytes place
// the crop.
#include <algorithm>
#include <vector>

#include "data/error.h"
#include "data/image/decode.h"
#include "data/image/jpeg_crop.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace dtrain;

constexpr int kSide = 32;
constexpr int64_t kMostPixels = 1 << 22;  // larger ones are slow, and no different

// A box inside of the image, wherever the four bytes say.
data::CropBox BoxIn(data::ImageSize size, std::span<const uint8_t> place) {
  const auto part = [&](size_t i, int whole) { return i < place.size() ? whole * place[i] / 256 : 0; };
  data::CropBox box{part(0, size.width), part(1, size.height), 0, 0};
  box.width = 1 + part(2, size.width - box.x);
  box.height = 1 + part(3, size.height - box.y);
  box.width = std::min(box.width, size.width - box.x);
  box.height = std::min(box.height, size.height - box.y);
  return box;
}

bool IsSmall(data::ImageSize size) { return int64_t{size.width} * size.height <= kMostPixels; }

void OwnDecoder(std::span<const uint8_t> bytes, std::span<const uint8_t> place) {
  const auto header = data::ReadBaselineHeader(bytes);
  if (!header) return;
  data::RequireSaneSize(header->size);
  data::RequireJpegHolds(header->size, bytes.size());
  if (!IsSmall(header->size)) return;
  std::vector<uint8_t> row(3 * kSide * kSide);
  const bool flip = !place.empty() && place[0] % 2 == 1;
  data::CropBaselineJpeg(*header, BoxIn(header->size, place), flip, data::Interpolation::kBilinear, kSide, row.data());
}

void Library(std::span<const uint8_t> bytes, std::span<const uint8_t> place) {
  const data::ImageSize size = data::ReadImageSize(bytes);
  if (!IsSmall(size)) return;
  const data::CropBox box = BoxIn(size, place);
  const cv::Mat region = data::DecodeRegion(bytes, box, {kSide, kSide});
  fuzz::Require(region.cols > 0 && region.cols <= box.width && region.rows > 0 && region.rows <= box.height,
                "a region that is not the box");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::FuzzInput input(data, size);
  const auto place = input.Take(4);
  for (const auto decode : {OwnDecoder, Library}) {
    try {
      decode(input.rest(), place);
    } catch (const DataError&) {
      continue;
    }
  }
  return 0;
}
