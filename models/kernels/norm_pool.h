// y = max pooling(ReLU(norm(x))) with 3×3 windows, stride 2, padding 1, the end of a ResNet's first layer, in one pass.
// For the backward pass, the place of each maximum is kept in four bits, and x there. With these, sums over all pixels
// become sums over the windows, and each thread collects the gradients of the windows that contain its pixels, always
// in the same order.
#pragma once

#include "models/kernels/norm.h"

namespace dtrain::models::kernels {

constexpr int kWindow = 3, kPoolStride = 2;       // padding 1
constexpr unsigned kNowhere = kWindow * kWindow;  // ReLU lets nothing pass in this window

// The places of eight neighbouring channels' maxima, four bits each: kWindow · row + column of the maximum within its
// window, or kNowhere.
using EightPlaces = uint32_t;

inline DTRAIN_HOST_DEVICE unsigned PlaceOf(EightPlaces places, int i) { return places >> 4 * i & 0xFU; }

inline DTRAIN_HOST_DEVICE int Pooled(int size) { return (size + 1) / kPoolStride; }

struct PoolArguments {
  const void* x;
  void* y;       // images × Pooled(height) × Pooled(width) × channels
  void* maxima;  // likewise: x where the maximum is, or 0
  EightPlaces* places;
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
    Eight<T> maxima;
    unsigned places[kWidth];
    for (int i = 0; i < kWidth; ++i) {
      best[i] = 0;  // what ReLU gives where it lets nothing pass
      maxima.values[i] = static_cast<T>(0.0F);
      places[i] = kNowhere;
    }
    for (int line = 0; line < kWindow; ++line) {
      const int y = pixel.row * kPoolStride - 1 + line;
      if (y < 0 || y >= height) continue;
      Eight<T> values[kWindow];
      const int x = pixel.column * kPoolStride - 1;
      const auto is_inside = [&](int i) { return x + i >= 0 && x + i < width; };
      // A place beyond the edge loads its neighbour, so that no load waits for a decision.
      for (int i = 0; i < kWindow; ++i) {
        const int nearest = is_inside(i) ? x + i : x + 1;
        const int64_t from = (static_cast<int64_t>(pixel.image) * height + y) * width + nearest;
        values[i] = LoadEight<T>(arguments.x, from * arguments.channels + of.channel);
      }
      for (int column = 0; column < kWindow; ++column) {
        if (!is_inside(column)) continue;
        for (int i = 0; i < kWidth; ++i) {
          const T x_there = values[column].values[i];
          const auto value = static_cast<float>(static_cast<T>(norm(i, static_cast<float>(x_there))));
          if (value > best[i] || std::isnan(value)) {
            best[i] = value;
            maxima.values[i] = x_there;
            places[i] = static_cast<unsigned>(line * kWindow + column);
          }
        }
      }
    }
    Eight<T> y;
    EightPlaces packed = 0;
    for (int i = 0; i < kWidth; ++i) {
      y.values[i] = static_cast<T>(best[i]);
      packed |= places[i] << 4 * i;
    }
    const int64_t at = row * arguments.channels + of.channel;
    StoreEight<T>(arguments.y, at, y);
    StoreEight<T>(arguments.maxima, at, maxima);
    arguments.places[at / kWidth] = packed;
  }
}

// The gradient at the maxima, for sums over all windows, which are the sums over all pixels. `at` is a place in y.
template <typename T>
struct WindowGradient : PlainGradient<T> {
  const EightPlaces* places;

  DTRAIN_HOST_DEVICE WindowGradient(const GradientArguments& of, int64_t channel)
      : PlainGradient<T>(of, channel), places(static_cast<const EightPlaces*>(of.aside)) {}

  DTRAIN_HOST_DEVICE void operator()(int64_t /*row*/, int64_t at, const Eight<T>& /*x*/,
                                     float (&gradient)[kWidth]) const {
    this->Load(at, gradient);
    const EightPlaces places_there = places[at / kWidth];
    for (int i = 0; i < kWidth; ++i) gradient[i] = PlaceOf(places_there, i) != kNowhere ? gradient[i] : 0.0F;
  }
};

// BackwardThread for pooling. The thread works on squares of 2×2 pixels: square (k, l) is all of window (k, l) that no
// earlier window has, and the windows (k, l), (k, l + 1), (k + 1, l) and (k + 1, l + 1) are all that contain its
// pixels.
template <typename T>
DTRAIN_HOST_DEVICE void PoolBackwardThread(const BackwardArguments& arguments, int64_t thread, int64_t threads) {
  constexpr int kPixels = kPoolStride * kPoolStride;
  const GradientArguments& of = arguments.of;
  const int height = Pooled(of.pool.height), width = Pooled(of.pool.width);
  const int64_t squares = of.rows / (static_cast<int64_t>(of.pool.height) * of.pool.width) * height * width;
  const Rows rows(of.channels, squares, thread, threads);
  if (rows.first >= squares) return;
  const PlainGradient<T> gradient(of, rows.channel);
  const ThroughNorm through_norm(arguments, rows.channel);
  for (int64_t square = rows.first; square < squares; square += rows.step) {
    const Pixel corner(square, height, width);
    float dz[kPixels][kWidth] = {};
    for (int window = 0; window < kPixels; ++window) {
      const int down = window / kPoolStride, right = window % kPoolStride;
      const int y = corner.row + down, x = corner.column + right;
      if (y >= height || x >= width) continue;
      const int64_t at = ((static_cast<int64_t>(corner.image) * height + y) * width + x) * of.channels + rows.channel;
      const EightPlaces places = static_cast<const EightPlaces*>(of.aside)[at / kWidth];
      float of_window[kWidth];
      gradient.Load(at, of_window);
      for (int pixel = 0; pixel < kPixels; ++pixel) {
        // Of the pixel, within the window.
        const int row = pixel / kPoolStride + 1 - down * kPoolStride;
        const int column = pixel % kPoolStride + 1 - right * kPoolStride;
        if (row < 0 || column < 0) continue;
        const auto place = static_cast<unsigned>(row * kWindow + column);
        for (int i = 0; i < kWidth; ++i) {
          dz[pixel][i] += PlaceOf(places, i) == place ? of_window[i] : 0.0F;
        }
      }
    }
    for (int pixel = 0; pixel < kPixels; ++pixel) {
      const int y = corner.row * kPoolStride + pixel / kPoolStride;
      const int x = corner.column * kPoolStride + pixel % kPoolStride;
      if (y >= of.pool.height || x >= of.pool.width) continue;
      const int64_t row = (static_cast<int64_t>(corner.image) * of.pool.height + y) * of.pool.width + x;
      const int64_t at = row * of.channels + rows.channel;
      through_norm.Store(at, LoadEight<T>(of.x, at), dz[pixel]);
    }
  }
}

// As ForBackward, for the sums, which SiLU with a scale has from excitation.h.
template <typename T, typename With>
void ForSum(const GradientArguments& of, const With& with) {
  if (of.activation == Activation::kReluPool) return with(Named<WindowGradient<T>>{});
  if (of.activation == Activation::kSilu) return with(Named<SiluGradient<T>>{});
  if (of.activation == Activation::kRelu) {
    return of.aside != nullptr ? with(Named<MaskedGradient<T>>{}) : with(Named<ReluGradient<T>>{});
  }
  of.scale.factors != nullptr ? with(Named<ScaledGradient<T>>{}) : with(Named<PlainGradient<T>>{});
}

// Like the functions of norm.h. The backward pass is LaunchSum's and LaunchBackward's.
int LaunchPool(const PoolArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
