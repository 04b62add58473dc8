// y = GELU(x + b) = u · Φ(u), with Φ by the error function (Hendrycks & Gimpel 2016, arXiv:1606.08415), and its
// gradients for x and b in one pass.
#pragma once

#include <cmath>

#include "models/kernels/column_sums.h"

namespace dtrain::models::kernels {

// Pointers are to the device's memory and aligned to 16 bytes. x, y and the gradients have the type that `Element`
// names.
struct GeluArguments {
  const void* x;
  const float* bias;
  void* y;
  int64_t rows, columns;
};

struct GeluGradientArguments {
  const void *dy, *x;
  const float* bias;
  void* dx;
  int64_t rows, columns;
  ColumnSums dbias;
};

inline DTRAIN_HOST_DEVICE float NormalCdf(float x) {
  constexpr float kInverseRootOfTwo = 0.70710678F;
  return 0.5F * (1.0F + erff(x * kInverseRootOfTwo));
}

// For half types, the fast function of a GPU is exact enough.
template <typename T>
DTRAIN_HOST_DEVICE float NormalDensity(float x) {
  constexpr float kInverseRootOfTwoPi = 0.39894228F;
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) < sizeof(float)) return kInverseRootOfTwoPi * __expf(-0.5F * x * x);
#endif
  return kInverseRootOfTwoPi * expf(-0.5F * x * x);
}

template <typename T>
DTRAIN_HOST_DEVICE void GeluThread(const GeluArguments& arguments, int64_t thread, int64_t threads) {
  const Rows of(arguments.columns, arguments.rows, thread, threads);
  if (of.first >= arguments.rows) return;
  const Eight<float> bias = LoadEight<float>(arguments.bias, of.channel);
  for (int64_t row = of.first; row < arguments.rows; row += of.step) {
    const int64_t at = row * arguments.columns + of.channel;
    const Eight<T> x = LoadEight<T>(arguments.x, at);
    Eight<T> y;
    DTRAIN_UNROLL
    for (int i = 0; i < kWidth; ++i) {
      const float u = ToFloat(x, i) + bias.values[i];
      y.values[i] = static_cast<T>(u * NormalCdf(u));
    }
    StoreEight<T>(arguments.y, at, y);
  }
}

template <typename T>
DTRAIN_HOST_DEVICE void GeluGradientThread(const GeluGradientArguments& arguments, const ColumnPlace& place,
                                           float (&sums)[kWidth]) {
  DTRAIN_UNROLL
  for (float& sum : sums) sum = 0;
  if (place.column >= arguments.columns) return;
  const Eight<float> bias = LoadEight<float>(arguments.bias, place.column);
  ForRows(place, arguments.rows, [&](int64_t first) {
    Eight<T> x[kRowsAtOnce], dy[kRowsAtOnce];
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const int64_t row = first + r * place.row_step, at = row * arguments.columns + place.column;
      if (row >= arguments.rows) break;
      x[r] = LoadEight<T>(arguments.x, at);
      dy[r] = LoadEight<T>(arguments.dy, at);
    }
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const int64_t row = first + r * place.row_step;
      if (row >= arguments.rows) break;
      Eight<T> dx;
      DTRAIN_UNROLL
      for (int i = 0; i < kWidth; ++i) {
        const float u = ToFloat(x[r], i) + bias.values[i];
        const float gradient = ToFloat(dy[r], i) * (NormalCdf(u) + u * NormalDensity<T>(u));
        dx.values[i] = static_cast<T>(gradient);
        sums[i] += gradient;
      }
      StoreEight<T>(arguments.dx, row * arguments.columns + place.column, dx);
    }
  });
}

// Start a launch, and LaunchGeluGradient that of the sums, too, on `stream` (a cudaStream_t) of the current device.
// Return a cudaError_t.
int LaunchGelu(const GeluArguments& arguments, Element element, void* stream);
int LaunchGeluGradient(const GeluGradientArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
