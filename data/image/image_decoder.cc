#include "data/image/image_decoder.h"

#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <opencv2/imgproc.hpp>
#include <string>

#include "data/error.h"
#include "data/image/codecs.h"
#include "data/image/exif_orientation.h"
#include "data/image/jpeg/baseline_header.h"
#include "data/random.h"

namespace dtrain::data {
namespace {

constexpr int64_t kMostResizedPixels = 178'956'970;

void RequireResizable(const cv::Mat& image, int64_t width, int64_t height) {
  if (width * height <= kMostResizedPixels) return;
  throw DataError("an image of " + std::to_string(image.cols) + "×" + std::to_string(image.rows) +
                  " pixels is too narrow to be resized to " + std::to_string(std::min(width, height)));
}

// Scales an image about its upper left corner, with grey beyond its edges.
cv::Mat Scaled(const cv::Mat& image, double scale) {
  const auto scaled = [scale](int pixels) { return std::max(1, static_cast<int>(pixels * scale)); };
  const cv::Size size(scaled(image.cols), scaled(image.rows));
  RequireResizable(image, size.width, size.height);
  if (std::max(image.cols, image.rows) >= SHRT_MAX) {  // what OpenCV's warpAffine takes
    throw DataError("an image of " + std::to_string(image.cols) + "×" + std::to_string(image.rows) +
                    " pixels is too long to be scaled (--native_scale)");
  }
  const cv::Matx23d map(scale, 0, 0, 0, scale, 0);
  cv::Mat result;
  cv::warpAffine(image, result, map, size, cv::INTER_LINEAR, cv::BORDER_CONSTANT, cv::Scalar(127, 127, 127));
  return result;
}

// Enlarges an image if a side is shorter than `side`, as MXNet does: in float32, and by the rows first.
cv::Mat AtLeast(const cv::Mat& image, int side) {
  if (std::min(image.rows, image.cols) >= side) return image;
  const bool is_low = image.rows < side;
  const auto by = static_cast<float>(side) / static_cast<float>(is_low ? image.rows : image.cols);
  const auto longer = static_cast<int64_t>(by * static_cast<float>(is_low ? image.cols : image.rows));
  RequireResizable(image, longer, side);
  const auto whole = std::max(1, static_cast<int>(longer));
  cv::Mat result;
  cv::resize(image, result, is_low ? cv::Size(whole, side) : cv::Size(side, std::max(whole, side)));
  return AtLeast(result, side);
}

void CopyPixels(const uint8_t* from, int pixels, uint8_t* to) {
  std::memcpy(to, from, 3 * static_cast<size_t>(pixels));
}

void MirrorPixels(const uint8_t* from, int pixels, uint8_t* to) {
  for (int i = 0; i < pixels; ++i, to += 3) std::memcpy(to, from + 3 * (pixels - 1 - i), 3);
}

// Copies a raw record into an image. Throws DataError if its size is not that of `rows`.
cv::Mat RawImage(std::span<const uint8_t> bytes, const RawRows& rows) {
  cv::Mat image(static_cast<int>(rows.height), static_cast<int>(rows.width), CV_8UC3);
  const std::span row(reinterpret_cast<std::byte*>(image.data), 3 * image.total());
  RawRowDecoder(rows).Decode(bytes, {}, {&row, 1});
  return image;
}

void WriteGeometry(const ImageGeometry& geometry, std::span<const std::span<std::byte>> rows) {
  const int32_t crop[] = {geometry.crop.x, geometry.crop.y, geometry.crop.width, geometry.crop.height};
  std::memcpy(rows[1].data(), crop, sizeof crop);
  rows[2][0] = static_cast<std::byte>(geometry.flip);
}

}  // namespace

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

ImageDecoder::ImageDecoder(const ImageDecoderOptions& options) : options_(options) {
  if (options_.eval_resize == 0) {
    options_.eval_resize = std::lround(static_cast<double>(options_.image_size) / 0.875);
  }
  if (IsNative()) cv::setNumThreads(1);  // callers have threads of their own
}

ImageDecoder::ImageDecoder(const ImageDecoderOptions& options, const RawRows& rows) : ImageDecoder(options) {
  if (rows.type != ElementType::kUInt8) {
    throw DataError("float32 images are served as they are and cannot be augmented", "use --augment=none");
  }
  raw_rows_ = rows;
}

// Evaluation always uses image_size, because eval_resize was chosen for it.
int ImageDecoder::SideOf(int64_t size) const {
  const bool own = size == 0 || !options_.augment.crops;
  return static_cast<int>(own ? options_.image_size : size);
}

std::vector<Field> ImageDecoder::fields(int64_t size) const {
  const int64_t side = SideOf(size);
  return {{.name = "images", .type = ElementType::kUInt8, .row_shape = {side, side, 3}},
          {.name = "crop", .type = ElementType::kInt32, .row_shape = {4}, .on_host = true},
          {.name = "flip", .type = ElementType::kUInt8, .row_shape = {}, .on_host = true}};
}

void ImageDecoder::Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
                          std::span<const std::span<std::byte>> rows) const {
  auto* pixels = reinterpret_cast<uint8_t*>(rows[0].data());
  const bool augmented = options_.augment.crops;
  const ImageGeometry geometry = IsNative()  ? DecodeNative(bytes, sample, pixels)
                                 : augmented ? DecodeRandomCrop(bytes, sample, pixels)
                                             : DecodeCentre(bytes, pixels);
  if (augmented) ChangePixels(sample, pixels);
  WriteGeometry(geometry, rows);
}

void ImageDecoder::ChangePixels(const SampleRef& sample, uint8_t* row) const {
  const PixelView image{row, SideOf(sample.size), SideOf(sample.size)};
  RandomGenerator policy(KeyOf(sample, RandomStream::kPolicy));
  if (options_.augment.policy) options_.augment.policy(image, options_.policy, policy);
  RandomGenerator photometric(KeyOf(sample, RandomStream::kPhotometric));
  ApplyPhotometric(image, options_.photometric, photometric);
}

RandomKey ImageDecoder::KeyOf(const SampleRef& sample, RandomStream stream) const {
  return {
      .seed = options_.seed, .epoch = sample.epoch, .sample = sample.index, .repeat = sample.repeat, .stream = stream};
}

ImageGeometry ImageDecoder::DrawGeometry(ImageSize image, const SampleRef& sample) const {
  RandomGenerator random(KeyOf(sample, RandomStream::kAugment));
  const CropBox crop = RandomResizedCrop(image, options_.crop, random);
  return {crop, RandomFlip(options_.crop.flip, random)};
}

Interpolation ImageDecoder::FilterOf(const SampleRef& sample) const {
  if (!options_.draws_interpolation) return options_.interpolation;
  RandomGenerator random(KeyOf(sample, RandomStream::kFilter));
  return RandomFlip(0.5, random) ? Interpolation::kBicubic : Interpolation::kBilinear;
}

int ImageDecoder::OrientationOf(std::span<const uint8_t> bytes) const {
  return options_.exif_orientation && !raw_rows_ ? ExifOrientation(bytes) : 1;
}

ImageGeometry ImageDecoder::DecodeRandomCrop(std::span<const uint8_t> bytes, const SampleRef& sample,
                                             uint8_t* row) const {
  const int side = SideOf(sample.size);
  const std::optional<BaselineHeader> baseline = raw_rows_ ? std::nullopt : ReadBaselineHeader(bytes);
  ImageSize size;
  if (raw_rows_) {
    size = {static_cast<int>(raw_rows_->width), static_cast<int>(raw_rows_->height)};
  } else if (baseline) {
    RequireSaneSize(size = baseline->size);
    RequireJpegHolds(size, bytes.size());
  } else {
    size = ReadImageSize(bytes);
  }
  const int orientation = OrientationOf(bytes);
  const ImageSize stored = std::exchange(size, UprightSize(size, orientation));
  const auto [box, flip] = DrawGeometry(size, sample);
  const Interpolation filter = FilterOf(sample);
  if (baseline && orientation == 1 && CropBaselineJpeg(*baseline, box, flip, filter, side, row)) return {box, flip};

  const cv::Mat region =
      raw_rows_ ? RawImage(bytes, *raw_rows_)(cv::Rect(box.x, box.y, box.width, box.height))
                : Upright(DecodeRegion(bytes, StoredBox(box, stored, orientation), {side, side}), orientation);
  const cv::Mat resized = Resize(region, side, side, filter);
  for (int y = 0; y < side; ++y) {
    (flip ? MirrorPixels : CopyPixels)(resized.ptr<uint8_t>(y), side, row + ptrdiff_t{3} * side * y);
  }
  return {box, flip};
}

cv::Mat ImageDecoder::WholeImage(std::span<const uint8_t> bytes) const {
  return raw_rows_ ? RawImage(bytes, *raw_rows_) : Upright(DecodeImage(bytes), OrientationOf(bytes));
}

ImageGeometry ImageDecoder::DecodeNative(std::span<const uint8_t> bytes, const SampleRef& sample, uint8_t* row) const {
  const bool trains = options_.augment.crops;
  const int side = SideOf(sample.size);
  RandomGenerator random(KeyOf(sample, RandomStream::kAugment));
  const cv::Mat whole = WholeImage(bytes);
  const double scale = random.Uniform(options_.native_scale[0], options_.native_scale[1]);
  const cv::Mat image = AtLeast(trains && scale != 1 ? Scaled(whole, scale) : whole, side);
  int x = (image.cols - side) / 2, y = (image.rows - side) / 2;
  if (trains && options_.native == ImageDecoderOptions::Place::kRandom) {
    y = static_cast<int>(random.Below(image.rows - side + 1));
    x = static_cast<int>(random.Below(image.cols - side + 1));
  }
  const bool flip = trains && RandomFlip(options_.crop.flip, random);
  for (int i = 0; i < side; ++i, row += ptrdiff_t{3} * side) {
    (flip ? MirrorPixels : CopyPixels)(image.ptr<uint8_t>(y + i, x), side, row);
  }
  const auto in_source = [&](int64_t pixels) { return static_cast<int>(pixels * whole.cols / image.cols); };
  return {{in_source(x), in_source(y), in_source(side), in_source(side)}, flip};
}

ImageGeometry ImageDecoder::DecodeCentre(std::span<const uint8_t> bytes, uint8_t* row) const {
  // Decodes the whole image at full resolution, because evaluation must reproduce published figures.
  const cv::Mat image = WholeImage(bytes);
  const auto side = static_cast<int>(options_.image_size);
  const ImageSize size = ResizeShortSide({image.cols, image.rows}, static_cast<int>(options_.eval_resize));
  RequireResizable(image, size.width, size.height);
  const cv::Mat resized = Resize(image, size.width, size.height, options_.interpolation);
  const CropBox box = CentreCrop(size, side);
  const int left = std::max(0, box.x), right = std::min(size.width, box.x + side);
  if (right - left < side || size.height < side) std::memset(row, 0, 3 * static_cast<size_t>(side) * side);
  for (int y = std::max(0, box.y); y < std::min(size.height, box.y + side); ++y) {
    CopyPixels(resized.ptr<uint8_t>(y) + 3 * left, right - left,
               row + 3 * (ptrdiff_t{side} * (y - box.y) + (left - box.x)));
  }
  const double scale_x = static_cast<double>(image.cols) / size.width;
  const double scale_y = static_cast<double>(image.rows) / size.height;
  const auto in_source = [](int pixels, double scale) { return static_cast<int>(std::lround(pixels * scale)); };
  return {{in_source(box.x, scale_x), in_source(box.y, scale_y), in_source(side, scale_x), in_source(side, scale_y)},
          false};
}

}  // namespace dtrain::data
