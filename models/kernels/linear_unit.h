// What follows the first product of a transformer's MLP, and its gradients, in one pass each way: y = GELU(x + b) =
// u · Φ(u), with Φ by the error function (Hendrycks & Gimpel 2016, arXiv:1606.08415), or, where the product has two
// halves side by side, y = f(x + b) · (x' + b') of both, with GELU or SiLU as f (Shazeer 2020, arXiv:2002.05202). The
// backward pass computes f again.
#pragma once

#include <cmath>

#include "models/kernels/column_sums.h"
#include "models/kernels/norm.h"

namespace dtrain::models::kernels {

enum class LinearUnit { kGelu, kGatedGelu, kGatedSilu };

constexpr DTRAIN_HOST_DEVICE int HalvesOf(LinearUnit unit) {
  switch (unit) {
    case LinearUnit::kGelu:
      return 1;
    case LinearUnit::kGatedGelu:
    case LinearUnit::kGatedSilu:
      break;
  }
  return 2;
}

// Pointers are to the device's memory and aligned to 16 bytes. x, y and the gradients have the type that `Element`
// names. Rows of x and dx have HalvesOf(unit) · columns elements.
struct LinearUnitArguments {
  LinearUnit unit;
  const void* x;
  const float* bias;  // null: 0
  void* y;
  int64_t rows, columns;
};

struct LinearUnitGradientArguments {
  LinearUnit unit;
  const void *dy, *x;
  const float* bias;  // null: 0, and there are no sums
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

// f(u) and f'(u).
struct ValueAndSlope {
  float value, slope;
};

template <typename T, LinearUnit kUnit>
DTRAIN_HOST_DEVICE ValueAndSlope Activate(float u) {
  if constexpr (kUnit == LinearUnit::kGatedSilu) {
    const float sigmoid = Sigmoid<T>(u);
    return {u * sigmoid, sigmoid * (1.0F + u * (1.0F - sigmoid))};
  }
  static_assert(kUnit == LinearUnit::kGelu || kUnit == LinearUnit::kGatedGelu || kUnit == LinearUnit::kGatedSilu);
  const float cdf = NormalCdf(u);
  return {u * cdf, cdf + u * NormalDensity<T>(u)};
}

template <typename T, LinearUnit kUnit>
DTRAIN_HOST_DEVICE void LinearUnitThread(const LinearUnitArguments& arguments, int64_t thread, int64_t threads) {
  constexpr bool kGates = HalvesOf(kUnit) == 2;
  const int64_t columns = arguments.columns;
  const Rows of(columns, arguments.rows, thread, threads);
  if (of.first >= arguments.rows) return;
  const Eight<float> bias = LoadVector(arguments.bias, of.channel, 0);
  Eight<float> gate_bias = {};
  if (kGates) gate_bias = LoadVector(arguments.bias, columns + of.channel, 0);
  for (int64_t row = of.first; row < arguments.rows; row += of.step) {
    const int64_t at = row * columns + of.channel, x_at = row * columns * HalvesOf(kUnit) + of.channel;
    const Eight<T> x = LoadEight<T>(arguments.x, x_at);
    Eight<T> gate, y;
    if (kGates) gate = LoadEight<T>(arguments.x, x_at + columns);
    DTRAIN_UNROLL
    for (int i = 0; i < kWidth; ++i) {
      float value = Activate<T, kUnit>(ToFloat(x, i) + bias.values[i]).value;
      if (kGates) value *= ToFloat(gate, i) + gate_bias.values[i];
      y.values[i] = static_cast<T>(value);
    }
    StoreEight<T>(arguments.y, at, y);
  }
}

// The sums of a thread over its rows, of each half.
template <LinearUnit kUnit>
using LinearUnitSums = float[HalvesOf(kUnit)][kWidth];

template <typename T, LinearUnit kUnit>
DTRAIN_HOST_DEVICE void LinearUnitGradientThread(const LinearUnitGradientArguments& arguments, const ColumnPlace& place,
                                                 LinearUnitSums<kUnit>& sums) {
  constexpr bool kGates = HalvesOf(kUnit) == 2;
  constexpr int kAtOnce = kGates ? 1 : kRowsAtOnce;  // a gated row has enough to load, and fills the registers
  const int64_t columns = arguments.columns;
  DTRAIN_UNROLL
  for (auto& of_half : sums) {
    DTRAIN_UNROLL
    for (float& sum : of_half) sum = 0;
  }
  if (place.column >= columns) return;
  const Eight<float> bias = LoadVector(arguments.bias, place.column, 0);
  Eight<float> gate_bias = {};
  if (kGates) gate_bias = LoadVector(arguments.bias, columns + place.column, 0);
  ForRows<kAtOnce>(place, arguments.rows, [&](int64_t first) {
    Eight<T> x[kAtOnce], gate[kAtOnce], dy[kAtOnce];
    DTRAIN_UNROLL
    for (int r = 0; r < kAtOnce; ++r) {
      const int64_t row = first + r * place.row_step, x_at = row * columns * HalvesOf(kUnit) + place.column;
      if (row >= arguments.rows) break;
      x[r] = LoadEight<T>(arguments.x, x_at);
      if (kGates) gate[r] = LoadEight<T>(arguments.x, x_at + columns);
      dy[r] = LoadEight<T>(arguments.dy, row * columns + place.column);
    }
    DTRAIN_UNROLL
    for (int r = 0; r < kAtOnce; ++r) {
      const int64_t row = first + r * place.row_step, x_at = row * columns * HalvesOf(kUnit) + place.column;
      if (row >= arguments.rows) break;
      Eight<T> dx, dgate;
      DTRAIN_UNROLL
      for (int i = 0; i < kWidth; ++i) {
        const ValueAndSlope f = Activate<T, kUnit>(ToFloat(x[r], i) + bias.values[i]);
        float gradient = ToFloat(dy[r], i);
        if (kGates) {
          const float of_gate = gradient * f.value;
          dgate.values[i] = static_cast<T>(of_gate);
          sums[HalvesOf(kUnit) - 1][i] += of_gate;
          gradient *= ToFloat(gate[r], i) + gate_bias.values[i];
        }
        gradient *= f.slope;
        dx.values[i] = static_cast<T>(gradient);
        sums[0][i] += gradient;
      }
      StoreEight<T>(arguments.dx, x_at, dx);
      if (kGates) StoreEight<T>(arguments.dx, x_at + columns, dgate);
    }
  });
}

// Calls with(std::integral_constant<LinearUnit, …>{}).
template <typename With>
void ForUnit(LinearUnit unit, const With& with) {
  switch (unit) {
    case LinearUnit::kGelu:
      return with(std::integral_constant<LinearUnit, LinearUnit::kGelu>{});
    case LinearUnit::kGatedGelu:
      return with(std::integral_constant<LinearUnit, LinearUnit::kGatedGelu>{});
    case LinearUnit::kGatedSilu:
      return with(std::integral_constant<LinearUnit, LinearUnit::kGatedSilu>{});
  }
}

// Start a launch, and LaunchLinearUnitGradient that of the sums, too, on `stream` (a cudaStream_t) of the current
// device. Return a cudaError_t.
int LaunchLinearUnit(const LinearUnitArguments& arguments, Element element, void* stream);
int LaunchLinearUnitGradient(const LinearUnitGradientArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
