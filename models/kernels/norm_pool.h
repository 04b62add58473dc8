// y = max pooling(ReLU(norm(x))) with 3×3 windows, stride 2, padding 1, the end of a ResNet's first layer, in one pass.
// A byte per element of y keeps the place of the maximum for the backward pass. There, each thread collects the
// gradients of the windows that contain its pixel, always in the same order.
#pragma once

#include "models/kernels/norm.h"

namespace dtrain::models::kernels {

constexpr int kWindow = 3, kPoolStride = 2;      // padding 1
constexpr uint8_t kNowhere = kWindow * kWindow;  // ReLU lets nothing pass in this window

inline DTRAIN_HOST_DEVICE int Pooled(int size) { return (size + 1) / kPoolStride; }

struct PoolArguments {
  const void* x;
  void* y;          // images × Pooled(height) × Pooled(width) × channels
  uint8_t* places;  // likewise: kWindow · row + column of the maximum within its window, or kNowhere
  NormOfChannels norm;
  int64_t images, channels;
  PoolShape pool;
};

// Row and column of a pixel and its image's number. Images have less than 2³¹ pixels together: 32-bit divisions are
// much faster.
struct Pixel {
  int image, row, column;

  DTRAIN_HOST_DEVICE Pixel(int64_t number, int height, int width) {
    const auto of_all = static_cast<unsigned>(number), line = of_all / static_cast<unsigned>(width);
    column = static_cast<int>(of_all - line * static_cast<unsigned>(width));
    image = static_cast<int>(line / static_cast<unsigned>(height));
    row = static_cast<int>(line) - image * height;
  }
};

// Of equal values the first wins, and a NaN wins over all, as in ATen.
template <typename T>
DTRAIN_HOST_DEVICE void PoolThread(const PoolArguments& arguments, int64_t thread, int64_t threads) {
  const int height = arguments.pool.height, width = arguments.pool.width;
  const int64_t rows = arguments.images * Pooled(height) * Pooled(width);
  const Rows of(arguments.channels, rows, thread, threads);
  if (of.first >= rows) return;
  const Affine norm(arguments.norm, of.channel);
  for (int64_t row = of.first; row < rows; row += of.step) {
    const Pixel pixel(row, Pooled(height), Pooled(width));
    float best[kWidth];
    Eight<uint8_t> places;
    for (int i = 0; i < kWidth; ++i) {
      best[i] = 0;  // what ReLU gives where it lets nothing pass
      places.values[i] = kNowhere;
    }
    for (int place = 0; place < kWindow * kWindow; ++place) {
      const int y = pixel.row * kPoolStride - 1 + place / kWindow;
      const int x = pixel.column * kPoolStride - 1 + place % kWindow;
      if (y < 0 || y >= height || x < 0 || x >= width) continue;
      const int64_t from = (static_cast<int64_t>(pixel.image) * height + y) * width + x;
      const Eight<T> values = LoadEight<T>(arguments.x, from * arguments.channels + of.channel);
      for (int i = 0; i < kWidth; ++i) {
        const auto value = static_cast<float>(static_cast<T>(norm(i, static_cast<float>(values.values[i]))));
        if (value > best[i] || std::isnan(value)) {
          best[i] = value;
          places.values[i] = static_cast<uint8_t>(place);
        }
      }
    }
    Eight<T> y;
    for (int i = 0; i < kWidth; ++i) y.values[i] = static_cast<T>(best[i]);
    const int64_t at = row * arguments.channels + of.channel;
    StoreEight<T>(arguments.y, at, y);
    StoreEight<uint8_t>(arguments.places, at, places);
  }
}

template <typename T>
struct PoolGradient : PlainGradient<T> {
  const uint8_t* places;
  int64_t channels, channel;
  PoolShape shape;

  DTRAIN_HOST_DEVICE PoolGradient(const GradientArguments& of, int64_t of_channel)
      : PlainGradient<T>(of, of_channel),
        places(of.aside),
        channels(of.channels),
        channel(of_channel),
        shape(of.pool) {}

  DTRAIN_HOST_DEVICE void operator()(int64_t row, int64_t /*at*/, const Eight<T>& /*x*/,
                                     float (&gradient)[kWidth]) const {
    for (int i = 0; i < kWidth; ++i) gradient[i] = 0;
    const Pixel pixel(row, shape.height, shape.width);
    const int height = Pooled(shape.height), width = Pooled(shape.width);
    // Pixel 2k is in window k alone, pixel 2k + 1 in the windows k and k + 1.
    for (int y = pixel.row / kPoolStride; y <= (pixel.row + 1) / kPoolStride && y < height; ++y) {
      for (int x = pixel.column / kPoolStride; x <= (pixel.column + 1) / kPoolStride && x < width; ++x) {
        const int place =
            (pixel.row - y * kPoolStride + 1) * kWindow + pixel.column - x * kPoolStride + 1;  // of the pixel in it
        const int64_t at = ((static_cast<int64_t>(pixel.image) * height + y) * width + x) * channels + channel;
        const Eight<uint8_t> maxima = LoadEight<uint8_t>(places, at);
        float of_window[kWidth];
        this->Load(at, of_window);
        for (int i = 0; i < kWidth; ++i) gradient[i] += maxima.values[i] == place ? of_window[i] : 0.0F;
      }
    }
  }
};

// Like the functions of norm.h. The backward pass is LaunchSum's and LaunchBackward's.
int LaunchPool(const PoolArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
