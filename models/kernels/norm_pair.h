// The backward pass of y = ReLU(norm(x) + norm(z)), a block's last normalisation and its shortcut's, for both at once:
// u, the sum, has one gradient, which is written once and read once.
#pragma once

#include "models/kernels/norm.h"

namespace dtrain::models::kernels {

// The sums of SumArguments for both. β's gradients are equal.
struct PairSumArguments {
  SumArguments of_x;  // its activation is kRelu with a mask, and dz is where du is written
  const void* z;
  NormOfChannels z_norm;
  SumsMemory z_sums;
  float *z_dbias, *z_dweight;
};

// Both gradients are du, and rows and channels are those of of_x.
struct PairBackwardArguments {
  BackwardArguments of_x, of_z;  // without an activation
};

struct PairSums {
  ChannelSums of_x, of_z;
};

template <typename T>
DTRAIN_HOST_DEVICE PairSums PairSumThread(const PairSumArguments& arguments, const Place& place) {
  const GradientArguments& of = arguments.of_x.of;
  PairSums sums = {};
  if (place.channel >= of.channels) return sums;
  float mean[kWidth], z_mean[kWidth];
  for (int i = 0; i < kWidth; ++i) {
    mean[i] = of.norm.mean[place.channel + i];
    z_mean[i] = arguments.z_norm.mean[place.channel + i];
  }
  const MaskedGradient<T> gradient(of, place.channel);
  for (int64_t row = place.first_row; row < of.rows; row += place.row_step) {
    const int64_t at = row * of.channels + place.channel;
    const Eight<T> x = LoadEight<T>(of.x, at), z = LoadEight<T>(arguments.z, at);
    float du[kWidth];
    Eight<T> rounded;
    gradient(row, at, x, du);
    for (int i = 0; i < kWidth; ++i) {
      rounded.values[i] = static_cast<T>(du[i]);
      const auto value = static_cast<float>(rounded.values[i]);
      sums.of_x.first[i] += value;
      sums.of_x.second[i] += value * (static_cast<float>(x.values[i]) - mean[i]);
      sums.of_z.second[i] += value * (static_cast<float>(z.values[i]) - z_mean[i]);
    }
    StoreEight<T>(arguments.of_x.dz, at, rounded);
  }
  for (int i = 0; i < kWidth; ++i) sums.of_z.first[i] = sums.of_x.first[i];
  return sums;
}

inline DTRAIN_HOST_DEVICE void FinishZSums(const PairSumArguments& arguments, int64_t channel, double du,
                                           double du_centred) {
  arguments.z_dbias[channel] = static_cast<float>(du);
  arguments.z_dweight[channel] = static_cast<float>(du_centred * arguments.z_norm.inverse_std[channel]);
}

template <typename T>
DTRAIN_HOST_DEVICE void PairBackwardThread(const PairBackwardArguments& arguments, int64_t thread, int64_t threads) {
  const GradientArguments& of = arguments.of_x.of;
  const Rows rows(of.channels, of.rows, thread, threads);
  if (rows.first >= of.rows) return;
  const PlainGradient<T> gradient(of, rows.channel);
  const ThroughNorm of_x(arguments.of_x, rows.channel), of_z(arguments.of_z, rows.channel);
  for (int64_t row = rows.first; row < of.rows; row += rows.step) {
    const int64_t at = row * of.channels + rows.channel;
    const Eight<T> x = LoadEight<T>(of.x, at), z = LoadEight<T>(arguments.of_z.of.x, at);
    float du[kWidth];
    gradient.Load(at, du);
    of_x.Store(at, x, du);
    of_z.Store(at, z, du);
  }
}

// Start a kernel on `stream` (a cudaStream_t) of the current device. Return a cudaError_t.
int LaunchPairSum(const PairSumArguments& arguments, Element element, void* stream);
int LaunchPairBackward(const PairBackwardArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
