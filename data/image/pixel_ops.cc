// Pillow's blend, enhancers and ImageOps, implemented from their definitions.
#include "data/image/pixel_ops.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <numeric>
#include <opencv2/core.hpp>
#include <vector>

namespace dtrain::data {
namespace {

using Table = std::array<uint8_t, 256>;

size_t Bytes(PixelView image) { return 3 * static_cast<size_t>(image.count()); }

// Returns from + factor·(to − from), clamped and truncated to a byte.
uint8_t Blend(int from, int to, float factor) {
  const float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return value <= 0 ? 0 : value >= 255 ? 255 : static_cast<uint8_t>(value);
}

int Grey(const uint8_t* pixel) { return (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16; }

template <typename Function>
void ApplyToValues(PixelView image, const Function& function) {
  Table table;
  for (size_t value = 0; value < 256; ++value) table[value] = function(static_cast<int>(value));
  MapValues(image, {table, table, table});
}

std::array<std::array<int64_t, 256>, 3> Histograms(PixelView image) {
  std::array<std::array<int64_t, 256>, 3> histograms{};
  for (size_t i = 0; i < Bytes(image); ++i) ++histograms[i % 3][image.pixels[i]];
  return histograms;
}

// Returns the image convolved with (1 1 1; 1 5 1; 1 1 1) / 13. The outermost pixels are copied unchanged.
std::vector<uint8_t> Smoothed(PixelView image) {
  std::vector<uint8_t> smooth(image.pixels, image.pixels + Bytes(image));
  const ptrdiff_t row = ptrdiff_t{3} * image.width;
  for (int y = 1; y + 1 < image.height; ++y) {
    for (ptrdiff_t i = y * row + 3; i < (y + 1) * row - 3; ++i) {
      const uint8_t* at = image.pixels + i;
      int sum = 4 * at[0];
      for (const ptrdiff_t line : {-row, ptrdiff_t{0}, row}) sum += at[line - 3] + at[line] + at[line + 3];
      smooth[static_cast<size_t>(i)] = static_cast<uint8_t>((2 * sum + 13) / 26);  // rounded
    }
  }
  return smooth;
}

// Computes hue and saturation, 0 to 255, as Pillow stores them.
void ToHueSaturation(const uint8_t* pixel, uint8_t& hue, uint8_t& saturation) {
  const auto [least, most] = std::minmax({pixel[0], pixel[1], pixel[2]});
  hue = saturation = 0;
  if (least == most) return;
  const auto range = static_cast<float>(most - least);
  const float red = static_cast<float>(most - pixel[0]) / range, green = static_cast<float>(most - pixel[1]) / range,
              blue = static_cast<float>(most - pixel[2]) / range;
  // Rounds to float where Pillow does: the hue is truncated to a whole number, which another rounding could change by
  // 1.
  const auto sixths = static_cast<float>(pixel[0] == most   ? blue - green
                                         : pixel[1] == most ? 2.0 + red - blue
                                                            : 4.0 + green - red);
  const auto turn = static_cast<float>(std::fmod(sixths / 6.0 + 1.0, 1.0));
  hue = static_cast<uint8_t>(turn * 255.0);
  saturation = static_cast<uint8_t>(range / static_cast<float>(most) * 255.0);
}

void FromHueSaturation(uint8_t hue, uint8_t saturation, uint8_t value, uint8_t* pixel) {
  if (saturation == 0) {
    std::fill_n(pixel, 3, value);
    return;
  }
  const double strength = static_cast<float>(saturation) / 255.0F, sixths = hue * 6.0 / 255.0;
  const int sector = static_cast<int>(sixths);
  const double rest = static_cast<float>(sixths - sector);
  const auto level = [&](double share) { return static_cast<uint8_t>(std::lround(value * (1.0 - share))); };
  const uint8_t low = level(strength), falling = level(strength * rest), rising = level(strength * (1.0 - rest));
  const uint8_t sectors[6][3] = {{value, rising, low},  {falling, value, low}, {low, value, rising},
                                 {low, falling, value}, {rising, low, value},  {value, low, falling}};
  std::copy_n(sectors[sector % 6], 3, pixel);
}

void TransformNearest(PixelView image, const AffineMap& map, const Colour& outside) {
  // Fixed point with 16 fractional bits, as in Pillow.
  const auto fixed = [](double value) { return static_cast<int64_t>(std::floor(value * 65536.0 + 0.5)); };
  const std::vector<uint8_t> source(image.pixels, image.pixels + Bytes(image));
  const int64_t a = fixed(map.a), b = fixed(map.b), d = fixed(map.d), e = fixed(map.e);
  int64_t line_x = fixed(map.c + map.a * 0.5 + map.b * 0.5), line_y = fixed(map.f + map.d * 0.5 + map.e * 0.5);
  uint8_t* to = image.pixels;
  for (int y = 0; y < image.height; ++y, line_x += b, line_y += e) {
    int64_t fixed_x = line_x, fixed_y = line_y;
    for (int x = 0; x < image.width; ++x, fixed_x += a, fixed_y += d, to += 3) {
      const int64_t from_x = fixed_x >> 16, from_y = fixed_y >> 16;
      if (from_x < 0 || from_x >= image.width || from_y < 0 || from_y >= image.height) {
        std::copy_n(outside.data(), 3, to);
      } else {
        std::copy_n(source.data() + 3 * (from_y * image.width + from_x), 3, to);
      }
    }
  }
}

double Bilinear(double before, double after, double part) { return before + (after - before) * part; }

double Bicubic(const double values[4], double part) {
  const double slope = values[2] - values[0];
  const double square = 2 * (values[0] - values[1]) + values[2] - values[3];
  const double cube = values[1] - values[0] + values[3] - values[2];
  return values[1] + part * (slope + part * (square + part * cube));
}

// Returns the value of a channel at (x + right, y + below), of pixel centres. Neighbours outside the image are replaced
// by the nearest ones inside.
template <bool cubic>
double Interpolated(const uint8_t* channel, PixelView image, int x, int y, double right, double below) {
  const auto at = [&](int column, int row) -> double {
    column = std::clamp(column, 0, image.width - 1);
    row = std::clamp(row, 0, image.height - 1);
    return channel[3 * (ptrdiff_t{row} * image.width + column)];
  };
  if constexpr (!cubic) {
    return Bilinear(Bilinear(at(x, y), at(x + 1, y), right), Bilinear(at(x, y + 1), at(x + 1, y + 1), right), below);
  } else {
    double lines[4];
    for (int i = 0; i < 4; ++i) {
      const int row = y - 1 + i;
      const double values[4] = {at(x - 1, row), at(x, row), at(x + 1, row), at(x + 2, row)};
      lines[i] = Bicubic(values, right);
    }
    return Bicubic(lines, below);
  }
}

template <bool cubic>
void TransformBetween(PixelView image, const AffineMap& map, const Colour& outside) {
  const std::vector<uint8_t> source(image.pixels, image.pixels + Bytes(image));
  uint8_t* to = image.pixels;
  for (int row = 0; row < image.height; ++row) {
    for (int column = 0; column < image.width; ++column, to += 3) {
      const double from_x = map.a * (column + 0.5) + map.b * (row + 0.5) + map.c;
      const double from_y = map.d * (column + 0.5) + map.e * (row + 0.5) + map.f;
      if (from_x < 0 || from_x >= image.width || from_y < 0 || from_y >= image.height) {
        std::copy_n(outside.data(), 3, to);
        continue;
      }
      const int x = static_cast<int>(std::floor(from_x - 0.5)), y = static_cast<int>(std::floor(from_y - 0.5));
      for (ptrdiff_t c = 0; c < 3; ++c) {
        const double value = Interpolated<cubic>(source.data() + c, image, x, y, from_x - 0.5 - x, from_y - 0.5 - y);
        to[c] = static_cast<uint8_t>(std::clamp(value, 0.0, 255.0));
      }
    }
  }
}

}  // namespace

void MapValues(PixelView image, const std::array<Table, 3>& tables) {
  for (size_t i = 0; i < Bytes(image); ++i) image.pixels[i] = tables[i % 3][image.pixels[i]];
}

void AdjustBrightness(PixelView image, double factor) {
  ApplyToValues(image, [factor](int value) { return Blend(0, value, static_cast<float>(factor)); });
}

void AdjustContrast(PixelView image, double factor) {
  int64_t sum = 0;
  for (int i = 0; i < image.count(); ++i) sum += Grey(image.pixels + ptrdiff_t{3} * i);
  const int mean = static_cast<int>(std::floor(static_cast<double>(sum) / image.count() + 0.5));
  ApplyToValues(image, [=](int value) { return Blend(mean, value, static_cast<float>(factor)); });
}

void AdjustSaturation(PixelView image, double factor) {
  for (int i = 0; i < image.count(); ++i) {
    uint8_t* pixel = image.pixels + ptrdiff_t{3} * i;
    const int grey = Grey(pixel);
    for (int c = 0; c < 3; ++c) pixel[c] = Blend(grey, pixel[c], static_cast<float>(factor));
  }
}

void AdjustSharpness(PixelView image, double factor) {
  const std::vector<uint8_t> smooth = Smoothed(image);
  for (size_t i = 0; i < smooth.size(); ++i) {
    image.pixels[i] = Blend(smooth[i], image.pixels[i], static_cast<float>(factor));
  }
}

void AdjustHue(PixelView image, double turns) {
  const auto shift = static_cast<uint8_t>(static_cast<int>(turns * 255));
  for (int i = 0; i < image.count(); ++i) {
    uint8_t* pixel = image.pixels + ptrdiff_t{3} * i;
    uint8_t hue = 0, saturation = 0;
    ToHueSaturation(pixel, hue, saturation);
    FromHueSaturation(static_cast<uint8_t>(hue + shift), saturation, std::max({pixel[0], pixel[1], pixel[2]}), pixel);
  }
}

void Posterize(PixelView image, int bits) {
  const int mask = 0xFF << (8 - bits);
  ApplyToValues(image, [mask](int value) { return static_cast<uint8_t>(value & mask); });
}

void Solarize(PixelView image, double threshold) {
  ApplyToValues(image,
                [threshold](int value) { return static_cast<uint8_t>(value < threshold ? value : 255 - value); });
}

void SolarizeAdd(PixelView image, int added) {
  ApplyToValues(
      image, [added](int value) { return static_cast<uint8_t>(value < 128 ? std::min(255, value + added) : value); });
}

void AutoContrast(PixelView image) {
  const auto histograms = Histograms(image);
  std::array<Table, 3> tables;
  for (size_t c = 0; c < 3; ++c) {
    int low = 0, high = 255;
    while (low < 255 && histograms[c][static_cast<size_t>(low)] == 0) ++low;
    while (high > 0 && histograms[c][static_cast<size_t>(high)] == 0) --high;
    const double scale = high > low ? 255.0 / (high - low) : 1, offset = high > low ? -low * scale : 0;
    for (int value = 0; value < 256; ++value) {
      tables[c][static_cast<size_t>(value)] =
          static_cast<uint8_t>(std::clamp(static_cast<int>(value * scale + offset), 0, 255));
    }
  }
  MapValues(image, tables);
}

void Equalize(PixelView image) {
  const auto histograms = Histograms(image);
  std::array<Table, 3> tables;
  for (size_t c = 0; c < 3; ++c) {
    const auto& histogram = histograms[c];
    int64_t last = 0;
    for (const int64_t count : histogram) last = count > 0 ? count : last;
    const int64_t step = (image.count() - last) / 255;
    int64_t sum = step / 2;
    for (size_t value = 0; value < 256; ++value) {
      tables[c][value] =
          static_cast<uint8_t>(step == 0 ? static_cast<int64_t>(value) : std::min<int64_t>(sum / step, 255));
      sum += histogram[value];
    }
  }
  MapValues(image, tables);
}

void Invert(PixelView image) {
  ApplyToValues(image, [](int value) { return static_cast<uint8_t>(255 - value); });
}

void Transform(PixelView image, const AffineMap& map, Between between, const Colour& outside) {
  constexpr decltype(&TransformNearest) kTransforms[] = {TransformNearest, TransformBetween<false>,
                                                         TransformBetween<true>};
  kTransforms[static_cast<size_t>(between)](image, map, outside);
}

void Rotate(PixelView image, double degrees, Between between, const Colour& outside) {
  // Pillow rounds the matrix to 15 decimals, so that quarter turns move whole pixels.
  const auto rounded = [](double value) { return std::nearbyint(value * 1e15) / 1e15; };
  const double angle = -degrees * std::numbers::pi / 180;
  const double cosine = rounded(std::cos(angle)), sine = rounded(std::sin(angle));
  const double x = image.width / 2.0, y = image.height / 2.0;
  const AffineMap map{
      .a = cosine, .b = sine, .c = x - cosine * x - sine * y, .d = -sine, .e = cosine, .f = y + sine * x - cosine * y};
  Transform(image, map, between, outside);
}

void GaussianBlur(PixelView image, int size, double sigma) {
  const int half = size / 2;
  std::vector<float> kernel(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) {
    kernel[static_cast<size_t>(i)] = static_cast<float>(std::exp(-0.5 * std::pow((i - half) / sigma, 2)));
  }
  const float sum = std::accumulate(kernel.begin(), kernel.end(), 0.0F);
  for (float& weight : kernel) weight /= sum;

  // Blurs one row at a time: vertically into a row of floats, then horizontally. The taps are the outer loop, so that
  // the inner loops work on whole rows.
  cv::Mat padded;
  cv::copyMakeBorder(cv::Mat(image.height, image.width, CV_8UC3, image.pixels), padded, half, half, half, half,
                     cv::BORDER_REFLECT_101);
  const auto row_length = 3 * static_cast<size_t>(image.width);
  std::vector<float> column(3 * static_cast<size_t>(padded.cols)), row(row_length);
  for (int y = 0; y < image.height; ++y) {
    std::ranges::fill(column, 0.0F);
    for (int t = 0; t < size; ++t) {
      const uint8_t* from = padded.ptr<uint8_t>(y + t);
      for (size_t i = 0; i < column.size(); ++i)
        column[i] += kernel[static_cast<size_t>(t)] * static_cast<float>(from[i]);
    }
    std::ranges::fill(row, 0.0F);
    for (int t = 0; t < size; ++t) {
      const float* from = column.data() + ptrdiff_t{3} * t;
      for (size_t i = 0; i < row_length; ++i) row[i] += kernel[static_cast<size_t>(t)] * from[i];
    }
    uint8_t* const to = image.pixels + static_cast<size_t>(y) * row_length;
    for (size_t i = 0; i < row_length; ++i) {
      to[i] = static_cast<uint8_t>(std::clamp(std::lrint(row[i]), 0L, 255L));
    }
  }
}

}  // namespace dtrain::data
