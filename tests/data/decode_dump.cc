// Writes decoded image files as a safetensors file with one uint8 tensor `images` (N×H×W×3), for the comparison with
// torchvision and Pillow in tests/interop.
//
//   decode_dump full OUTPUT FILE                           the whole image
//   decode_dump upright OUTPUT FILE                        the same, turned as its EXIF orientation says
//   decode_dump crop X Y WIDTH HEIGHT SIZE OUTPUT FILE     a region resized to SIZE, as in training
//   decode_dump op NAME MAGNITUDE OUTPUT FILE              the whole image after an augmentation
//   decode_dump timm NAME LEVEL BETWEEN OUTPUT FILE        the same with timm's operator, against its direction if
//                                                          LEVEL < 0
//   decode_dump policy TEXT COUNT OUTPUT FILE              COUNT copies of a square image after --augment=TEXT
//   decode_dump mix MIXUP CUTMIX WIDTH HEIGHT SEED COUNT OUTPUT    no pixels: the draws of rank 0 for COUNT batches as
//                                                          text, a line each: own share, x, y, width and height of the
//                                                          box
//   decode_dump centre SIZE RESIZE bilinear|bicubic OUTPUT FILE…    as in evaluation
//   decode_dump native SIZE SCALE - OUTPUT FILE…            native crops of the centre, of scaled images
//   decode_dump hls HUE LIGHTNESS SATURATION OUTPUT FILE   the whole image after ShiftHls
//   decode_dump                                            such commands from stdin, one a line, with tabs between the
//                                                          words; each is answered by `ok` or what is wrong with it
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "data/image/augment_policy.h"
#include "data/image/codecs.h"
#include "data/image/exif_orientation.h"
#include "data/image/image_decoder.h"
#include "data/image/mix.h"
#include "data/image/photometric.h"
#include "data/random.h"
#include "data/storage.h"
#include "tests/data/safetensors_bytes.h"

namespace dtrain::data {
namespace {

using Arguments = std::vector<std::string>;

void Write(const std::string& path, size_t count, int height, int width, const std::vector<uint8_t>& pixels) {
  const std::string header = R"({"images":{"dtype":"U8","shape":[)" + std::to_string(count) + "," +
                             std::to_string(height) + "," + std::to_string(width) + R"(,3],"data_offsets":[0,)" +
                             std::to_string(pixels.size()) + "]}}";
  std::ofstream file(path, std::ios::binary);
  file << SafetensorsBytes(header, RawBytes<uint8_t>(pixels));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

void WriteImage(const std::string& path, const cv::Mat& strided) {
  const cv::Mat image = strided.clone();
  Write(path, 1, image.rows, image.cols, {image.data, image.data + 3 * image.total()});
}

cv::Mat Image(const std::string& path) { return DecodeImage(ReadWholeFile(path)); }

PixelView ViewOf(const cv::Mat& image) { return {image.data, image.cols, image.rows}; }

void DumpFull(const Arguments& arguments) { WriteImage(arguments.at(0), Image(arguments.at(1))); }

void DumpUpright(const Arguments& arguments) {
  const auto bytes = ReadWholeFile(arguments.at(1));
  WriteImage(arguments.at(0), Upright(DecodeImage(bytes), ExifOrientation(bytes)));
}

// Arguments are the size, two options of the decoder, the output and the files.
void DumpDecoded(const Arguments& arguments, const ImageDecoderOptions& options) {
  const int64_t size = options.image_size;
  const ImageDecoder decoder(options);
  std::vector<uint8_t> pixels;
  for (size_t i = 4; i < arguments.size(); ++i) {
    std::vector<uint8_t> row(static_cast<size_t>(3 * size * size));
    int32_t crop[4];
    uint8_t flip = 0;
    const std::span<std::byte> rows[] = {std::as_writable_bytes(std::span(row)),
                                         std::as_writable_bytes(std::span(crop)),
                                         std::as_writable_bytes(std::span(&flip, 1))};
    decoder.Decode(ReadWholeFile(arguments[i]), {}, rows);
    pixels.insert(pixels.end(), row.begin(), row.end());
  }
  Write(arguments.at(3), arguments.size() - 4, static_cast<int>(size), static_cast<int>(size), pixels);
}

void DumpCentres(const Arguments& arguments) {
  DumpDecoded(arguments, {.image_size = std::stoll(arguments.at(0)),
                          .eval_resize = std::stoll(arguments.at(1)),
                          .interpolation = InterpolationFromName(arguments.at(2))});
}

void DumpNative(const Arguments& arguments) {
  const double scale = std::stod(arguments.at(1));
  DumpDecoded(arguments, {.image_size = std::stoll(arguments.at(0)),
                          .augment = AugmentNamed("basic"),
                          .crop = {.flip = 0},
                          .native = ImageDecoderOptions::Place::kCentre,
                          .native_scale = {scale, scale}});
}

void DumpHls(const Arguments& arguments) {
  const cv::Mat image = Image(arguments.at(4));
  ShiftHls(ViewOf(image), {std::stoi(arguments.at(0)), std::stoi(arguments.at(1)), std::stoi(arguments.at(2))});
  WriteImage(arguments.at(3), image);
}

void DumpCrop(const Arguments& arguments) {
  const CropBox box{std::stoi(arguments.at(0)), std::stoi(arguments.at(1)), std::stoi(arguments.at(2)),
                    std::stoi(arguments.at(3))};
  const int size = std::stoi(arguments.at(4));
  const cv::Mat region = DecodeRegion(ReadWholeFile(arguments.at(6)), box, {size, size});
  WriteImage(arguments.at(5), Resize(region, size, size, Interpolation::kBilinear));
}

// Applies an operator of augment_policy.h by name, or Hue, Blur (the magnitude is sigma, the kernel has 23 pixels) or
// Lighting (first component).
void DumpOperator(const Arguments& arguments) {
  const std::string& name = arguments.at(0);
  const double magnitude = std::stod(arguments.at(1));
  const cv::Mat image = Image(arguments.at(3));
  if (name == "Hue") {
    AdjustHue(ViewOf(image), magnitude);
  } else if (name == "Blur") {
    GaussianBlur(ViewOf(image), 23, magnitude);
  } else if (name == "Lighting") {
    AddLighting(ViewOf(image), {magnitude, 0, 0});
  } else {
    ApplyOperator(ViewOf(image), name, magnitude, BetweenFromName(arguments.size() > 4 ? arguments[4] : "nearest"));
  }
  WriteImage(arguments.at(2), image);
}

void DumpTimmOperator(const Arguments& arguments) {
  const double level = std::stod(arguments.at(1));
  const cv::Mat image = Image(arguments.at(4));
  ApplyTimmOperator(ViewOf(image), arguments.at(0), std::abs(level), std::signbit(level),
                    arguments.at(2) == "bicubic" ? Between::kBicubic : Between::kBilinear, {124, 116, 104});
  WriteImage(arguments.at(3), image);
}

void DumpPolicy(const Arguments& arguments) {
  const Augment augment = AugmentNamed(arguments.at(0));
  const cv::Mat image = Image(arguments.at(3));
  std::vector<uint8_t> pixels;
  const size_t count = std::stoul(arguments.at(1));
  for (size_t i = 0; i < count; ++i) {
    const cv::Mat copy = image.clone();
    RandomGenerator random({.sample = static_cast<int64_t>(i), .stream = RandomStream::kPolicy});
    augment.policy(ViewOf(copy), {}, random);
    pixels.insert(pixels.end(), copy.data, copy.data + copy.total() * 3);
  }
  Write(arguments.at(2), count, image.rows, image.cols, pixels);
}

void DumpMixes(const Arguments& arguments) {
  const MixOptions options{std::stod(arguments.at(0)), std::stod(arguments.at(1))};
  const ImageSize size{std::stoi(arguments.at(2)), std::stoi(arguments.at(3))};
  std::ofstream file(arguments.at(6));
  file << std::setprecision(17);
  for (int64_t batch = 0; batch < std::stoll(arguments.at(5)); ++batch) {
    RandomGenerator random({.seed = std::stoll(arguments.at(4)), .sample = batch, .stream = RandomStream::kMix});
    const Mix mix = DrawMix(options, size, random);
    file << mix.own_share << ' ' << mix.box.x << ' ' << mix.box.y << ' ' << mix.box.width << ' ' << mix.box.height
         << '\n';
  }
  if (!file.flush()) throw std::runtime_error("cannot write " + arguments[6]);
}

const std::map<std::string, void (*)(const Arguments&)> kKinds = {{"full", DumpFull},     {"upright", DumpUpright},
                                                                  {"crop", DumpCrop},     {"centre", DumpCentres},
                                                                  {"op", DumpOperator},   {"timm", DumpTimmOperator},
                                                                  {"policy", DumpPolicy}, {"mix", DumpMixes},
                                                                  {"native", DumpNative}, {"hls", DumpHls}};

// Returns what is wrong with the command, or nothing.
std::string Do(const Arguments& command) {
  try {
    kKinds.at(command.at(0))({command.begin() + 1, command.end()});
  } catch (const std::exception& error) {
    return std::string("decode_dump: ") + error.what();
  }
  return "";
}

void AnswerCommands() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    Arguments command;
    for (std::string word; std::getline(words, word, '\t');) command.push_back(word);
    const std::string problem = Do(command);
    std::puts(problem.empty() ? "ok" : problem.c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace dtrain::data

int main(int argc, char** argv) {
  if (argc <= 1) {
    dtrain::data::AnswerCommands();
    return 0;
  }
  const std::string problem = dtrain::data::Do({argv + 1, argv + argc});
  if (!problem.empty()) std::fprintf(stderr, "%s\n", problem.c_str());
  return problem.empty() ? 0 : 3;
}
