// Writes decoded image files as a safetensors file with one uint8 tensor `images` (N×H×W×3), for the comparison with
// torchvision and Pillow in tests/interop.
//
//   decode_dump full OUTPUT FILE                        the whole image
//   decode_dump upright OUTPUT FILE                     the same, turned as its EXIF orientation says
//   decode_dump crop X Y WIDTH HEIGHT SIZE OUTPUT FILE  a region resized to SIZE, as in training
//   decode_dump op NAME MAGNITUDE OUTPUT FILE           the whole image after an augmentation
//   decode_dump timm NAME LEVEL BETWEEN OUTPUT FILE     the same with timm's operator, against its direction if LEVEL <
//   0 decode_dump policy TEXT COUNT OUTPUT FILE           COUNT copies of a square image after --augment=TEXT
//   decode_dump mix MIXUP CUTMIX WIDTH HEIGHT SEED COUNT    no pixels: prints the draws of rank 0 for COUNT batches,
//   one
//                                                           per line: own share, x, y, width and height of the box
//   decode_dump centre SIZE RESIZE bilinear|bicubic OUTPUT FILE…    as in evaluation
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "data/image/augment_policy.h"
#include "data/image/codecs.h"
#include "data/image/exif_orientation.h"
#include "data/image/image_decoder.h"
#include "data/image/mix.h"
#include "data/image/photometric.h"
#include "data/image/timm_augment.h"
#include "data/random.h"
#include "data/storage.h"

namespace {

using dtrain::data::CropBox;
using dtrain::data::ImageDecoder;
using dtrain::data::Interpolation;

std::string HeaderLength(size_t length) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes;
}

void Write(const std::string& path, size_t count, int height, int width, const std::vector<uint8_t>& pixels) {
  const std::string header = R"({"images":{"dtype":"U8","shape":[)" + std::to_string(count) + "," +
                             std::to_string(height) + "," + std::to_string(width) + R"(,3],"data_offsets":[0,)" +
                             std::to_string(pixels.size()) + "]}}";
  std::ofstream file(path, std::ios::binary);
  file << HeaderLength(header.size()) << header;
  file.write(reinterpret_cast<const char*>(pixels.data()), static_cast<std::streamsize>(pixels.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

void WriteImage(const std::string& path, const cv::Mat& strided) {
  const cv::Mat image = strided.clone();
  Write(path, 1, image.rows, image.cols, {image.data, image.data + 3 * image.total()});
}

void DumpCentres(const std::vector<std::string>& arguments) {
  const int64_t size = std::stoll(arguments.at(0));
  const ImageDecoder decoder({.image_size = size,
                              .eval_resize = std::stoll(arguments.at(1)),
                              .interpolation = dtrain::data::InterpolationFromName(arguments.at(2))});
  std::vector<uint8_t> pixels;
  for (size_t i = 4; i < arguments.size(); ++i) {
    std::vector<uint8_t> row(static_cast<size_t>(3 * size * size));
    int32_t crop[4];
    uint8_t flip = 0;
    const std::span<std::byte> rows[] = {std::as_writable_bytes(std::span(row)),
                                         std::as_writable_bytes(std::span(crop)),
                                         std::as_writable_bytes(std::span(&flip, 1))};
    decoder.Decode(dtrain::data::ReadWholeFile(arguments[i]), {}, rows);
    pixels.insert(pixels.end(), row.begin(), row.end());
  }
  Write(arguments.at(3), arguments.size() - 4, static_cast<int>(size), static_cast<int>(size), pixels);
}

void DumpCrop(const std::vector<std::string>& arguments) {
  const CropBox box{std::stoi(arguments.at(0)), std::stoi(arguments.at(1)), std::stoi(arguments.at(2)),
                    std::stoi(arguments.at(3))};
  const int size = std::stoi(arguments.at(4));
  const auto bytes = dtrain::data::ReadWholeFile(arguments.at(6));
  const cv::Mat region = dtrain::data::DecodeRegion(bytes, box, {size, size});
  WriteImage(arguments.at(5), dtrain::data::Resize(region, size, size, Interpolation::kBilinear));
}

// Applies an operator of augment_policy.h by name, or Hue, Blur (the magnitude is sigma, the kernel has 23 pixels) or
// Lighting (first component).
void DumpOperator(const std::vector<std::string>& arguments) {
  const std::string& name = arguments.at(0);
  const double magnitude = std::stod(arguments.at(1));
  const cv::Mat image = dtrain::data::DecodeImage(dtrain::data::ReadWholeFile(arguments.at(3)));
  const dtrain::data::PixelView view{image.data, image.cols, image.rows};
  if (name == "Hue") {
    dtrain::data::AdjustHue(view, magnitude);
  } else if (name == "Blur") {
    dtrain::data::GaussianBlur(view, 23, magnitude);
  } else if (name == "Lighting") {
    dtrain::data::AddLighting(view, {magnitude, 0, 0});
  } else {
    dtrain::data::ApplyOperator(view, dtrain::data::OperatorFromName(name), magnitude,
                                dtrain::data::BetweenFromName(arguments.size() > 4 ? arguments[4] : "nearest"));
  }
  WriteImage(arguments.at(2), image);
}

void DumpTimmOperator(const std::vector<std::string>& arguments) {
  const double level = std::stod(arguments.at(1));
  const cv::Mat image = dtrain::data::DecodeImage(dtrain::data::ReadWholeFile(arguments.at(4)));
  using dtrain::data::Between;
  dtrain::data::ApplyTimmOperator(
      {image.data, image.cols, image.rows}, arguments.at(0), std::abs(level), std::signbit(level),
      arguments.at(2) == "bicubic" ? Between::kBicubic : Between::kBilinear, {124, 116, 104});
  WriteImage(arguments.at(3), image);
}

void DumpPolicy(const std::vector<std::string>& arguments) {
  const dtrain::data::Augment augment = dtrain::data::AugmentNamed(arguments.at(0));
  const cv::Mat image = dtrain::data::DecodeImage(dtrain::data::ReadWholeFile(arguments.at(3)));
  std::vector<uint8_t> pixels;
  const size_t count = std::stoul(arguments.at(1));
  for (size_t i = 0; i < count; ++i) {
    cv::Mat copy = image.clone();
    dtrain::data::RandomGenerator random(
        {.sample = static_cast<int64_t>(i), .stream = dtrain::data::RandomStream::kPolicy});
    augment.policy({copy.data, copy.cols, copy.rows}, {}, random);
    pixels.insert(pixels.end(), copy.data, copy.data + copy.total() * 3);
  }
  Write(arguments.at(2), count, image.rows, image.cols, pixels);
}

void PrintMixes(const std::vector<std::string>& arguments) {
  const dtrain::data::MixOptions options{std::stod(arguments.at(0)), std::stod(arguments.at(1))};
  const dtrain::data::ImageSize size{std::stoi(arguments.at(2)), std::stoi(arguments.at(3))};
  for (int64_t batch = 0; batch < std::stoll(arguments.at(5)); ++batch) {
    dtrain::data::RandomGenerator random(
        {.seed = std::stoll(arguments.at(4)), .sample = batch, .stream = dtrain::data::RandomStream::kMix});
    const dtrain::data::Mix mix = DrawMix(options, size, random);
    std::printf("%.17g %d %d %d %d\n", mix.own_share, mix.box.x, mix.box.y, mix.box.width, mix.box.height);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string kind = argc > 1 ? argv[1] : "";
    const std::vector<std::string> arguments(argv + (argc > 1 ? 2 : 1), argv + argc);
    if (kind == "full") {
      WriteImage(arguments.at(0), dtrain::data::DecodeImage(dtrain::data::ReadWholeFile(arguments.at(1))));
    } else if (kind == "upright") {
      const auto bytes = dtrain::data::ReadWholeFile(arguments.at(1));
      WriteImage(arguments.at(0),
                 dtrain::data::Upright(dtrain::data::DecodeImage(bytes), dtrain::data::ExifOrientation(bytes)));
    } else if (kind == "crop") {
      DumpCrop(arguments);
    } else if (kind == "centre") {
      DumpCentres(arguments);
    } else if (kind == "mix") {
      PrintMixes(arguments);
    } else if (kind == "op") {
      DumpOperator(arguments);
    } else if (kind == "timm") {
      DumpTimmOperator(arguments);
    } else if (kind == "policy") {
      DumpPolicy(arguments);
    } else {
      std::fprintf(stderr,
                   "decode_dump full|upright|crop|op|timm|policy|mix|centre …: see the head of decode_dump.cc\n");
      return 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "decode_dump: %s\n", error.what());
    return 3;
  }
  return 0;
}
