// y = ReLU((x − mean) · σ⁻¹ · γ + β [+ z]) and its gradients, for channels-last tensors: all that lies between the
// convolutions of a residual network, in one pass forward and two backward. For the backward pass, one bit per element
// (whether ReLU lets it pass) is kept instead of y.
//
// A tensor is `rows` (images × height × width) × `channels`. A thread works on eight neighbouring channels, whose
// constants it loads once, in every `step`-th row. It loads and stores 16 bytes of a half type, and one byte of the
// mask, at once. The work of one thread is an ordinary function here, so that a test runs it on the CPU, thread by
// thread.
#pragma once

#include <cstdint>

#include "models/kernels/host_device.h"

namespace dtrain::models::kernels {

enum class Element { kFloat, kHalf, kBFloat16 };

constexpr int kWidth = 8;  // channels per thread; `channels` is a multiple of it

template <typename T>
struct alignas(kWidth * sizeof(T) < 16 ? kWidth * sizeof(T) : 16) Eight {
  T values[kWidth];
};

template <typename T>
DTRAIN_HOST_DEVICE inline Eight<T> LoadEight(const T* from) {
  return *reinterpret_cast<const Eight<T>*>(from);
}

// The rows `first`, `first` + `step`, … and the eight channels from `channel` on, on which one of `threads` threads
// works. Threads beyond the last whole row have no rows.
struct Rows {
  int64_t first, step, channel;

  DTRAIN_HOST_DEVICE Rows(int64_t channels, int64_t rows, int64_t thread, int64_t threads) {
    const int64_t groups = channels / kWidth;
    step = threads / groups;
    first = thread / groups;
    if (first >= step) first = rows;
    channel = thread % groups * kWidth;
  }
};

// All pointers are to the device's memory and aligned to 16 bytes. x, z, y and the gradients have the type `T` that
// `Element` names; statistics and parameters are float32, one per channel.
struct ForwardArguments {
  const void *x, *z;  // z: null if nothing is added
  void* y;
  uint8_t* mask;  // bit i of byte k is set if ReLU lets element 8 k + i of y pass (above 0 or NaN)
  const float *mean, *inverse_std, *weight, *bias;
  int64_t rows, channels;
};

template <typename T>
DTRAIN_HOST_DEVICE void ForwardThread(const ForwardArguments& arguments, int64_t thread, int64_t threads) {
  const Rows of(arguments.channels, arguments.rows, thread, threads);
  if (of.first >= arguments.rows) return;
  float mean[kWidth], scale[kWidth], bias[kWidth];
  for (int i = 0; i < kWidth; ++i) {
    mean[i] = arguments.mean[of.channel + i];
    scale[i] = arguments.inverse_std[of.channel + i] * arguments.weight[of.channel + i];
    bias[i] = arguments.bias[of.channel + i];
  }
  for (int64_t row = of.first; row < arguments.rows; row += of.step) {
    const int64_t at = row * arguments.channels + of.channel;
    const Eight<T> x = LoadEight(static_cast<const T*>(arguments.x) + at);
    Eight<T> z, y;
    if (arguments.z != nullptr) z = LoadEight(static_cast<const T*>(arguments.z) + at);
    unsigned mask = 0;
    for (int i = 0; i < kWidth; ++i) {
      float value = (static_cast<float>(x.values[i]) - mean[i]) * scale[i] + bias[i];
      if (arguments.z != nullptr) value += static_cast<float>(z.values[i]);
      // NaN passes, as in ATen's ReLU: a step that is not finite must be seen.
      const bool passes = !(value <= 0);
      y.values[i] = static_cast<T>(passes ? value : 0.0F);
      mask |= static_cast<unsigned>(passes) << i;
    }
    *reinterpret_cast<Eight<T>*>(static_cast<T*>(arguments.y) + at) = y;
    arguments.mask[at / kWidth] = static_cast<uint8_t>(mask);
  }
}

// The sums of a thread over its rows: Σ dy and Σ dy · (x − mean), for the dy that ReLU lets pass.
struct GradientSums {
  float dy[kWidth], dy_centred[kWidth];
};

struct BackwardArguments {
  const void *dy, *x;
  const uint8_t* mask;
  const float *mean, *inverse_std, *weight;
  int64_t rows, channels;
  const float* sums;  // 2 × channels, over all rows: Σ dy, then Σ dy · (x − mean); LaunchSum ignores it
  void *dx, *dz;      // dz: null if nothing was added
};

template <typename T>
DTRAIN_HOST_DEVICE GradientSums SumThread(const BackwardArguments& arguments, int64_t first, int64_t step,
                                          int64_t channel) {
  GradientSums sums = {};
  float mean[kWidth];
  for (int i = 0; i < kWidth; ++i) mean[i] = arguments.mean[channel + i];
  for (int64_t row = first; row < arguments.rows; row += step) {
    const int64_t at = row * arguments.channels + channel;
    const Eight<T> dy = LoadEight(static_cast<const T*>(arguments.dy) + at);
    const Eight<T> x = LoadEight(static_cast<const T*>(arguments.x) + at);
    const unsigned mask = arguments.mask[at / kWidth];
    for (int i = 0; i < kWidth; ++i) {
      const float passed = (mask >> i & 1U) != 0 ? static_cast<float>(dy.values[i]) : 0.0F;
      sums.dy[i] += passed;
      sums.dy_centred[i] += passed * (static_cast<float>(x.values[i]) - mean[i]);
    }
  }
  return sums;
}

template <typename T>
DTRAIN_HOST_DEVICE void BackwardThread(const BackwardArguments& arguments, int64_t thread, int64_t threads) {
  const Rows of(arguments.channels, arguments.rows, thread, threads);
  if (of.first >= arguments.rows) return;
  const float one_row = 1.0F / static_cast<float>(arguments.rows);
  float mean[kWidth], mean_dy[kWidth], slope[kWidth], scale[kWidth];
  for (int i = 0; i < kWidth; ++i) {
    const int64_t channel = of.channel + i;
    const float inverse_std = arguments.inverse_std[channel];
    mean[i] = arguments.mean[channel];
    mean_dy[i] = arguments.sums[channel] * one_row;
    slope[i] = arguments.sums[arguments.channels + channel] * one_row * inverse_std * inverse_std;
    scale[i] = inverse_std * arguments.weight[channel];
  }
  for (int64_t row = of.first; row < arguments.rows; row += of.step) {
    const int64_t at = row * arguments.channels + of.channel;
    const Eight<T> dy = LoadEight(static_cast<const T*>(arguments.dy) + at);
    const Eight<T> x = LoadEight(static_cast<const T*>(arguments.x) + at);
    const unsigned mask = arguments.mask[at / kWidth];
    Eight<T> dx, dz;
    for (int i = 0; i < kWidth; ++i) {
      dz.values[i] = (mask >> i & 1U) != 0 ? dy.values[i] : static_cast<T>(0.0F);
      const float centred = static_cast<float>(x.values[i]) - mean[i];
      dx.values[i] = static_cast<T>((static_cast<float>(dz.values[i]) - mean_dy[i] - centred * slope[i]) * scale[i]);
    }
    *reinterpret_cast<Eight<T>*>(static_cast<T*>(arguments.dx) + at) = dx;
    if (arguments.dz != nullptr) *reinterpret_cast<Eight<T>*>(static_cast<T*>(arguments.dz) + at) = dz;
  }
}

// Returns the number of rows of partial sums that LaunchSum writes. The caller provides that many × 2 × channels
// floats.
int64_t NumPartialSums(int64_t rows, int64_t channels);

// Start a kernel on `stream` (a cudaStream_t) of the current device. Return a cudaError_t. The caller adds up what
// LaunchSum writes over its first dimension to get BackwardArguments::sums. The order of additions is the same every
// time.
int LaunchForward(const ForwardArguments& arguments, Element element, void* stream);
int LaunchSum(const BackwardArguments& arguments, Element element, float* partial, void* stream);
int LaunchBackward(const BackwardArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
