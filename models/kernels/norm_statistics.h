// Mean and variance of each channel, and their running averages, in one pass over x. Each value is taken relative to a
// shift: the mean of 32 rows spread over the tensor, which all blocks find by themselves. So the variance is exact even
// if the mean is a thousand times the deviation.
#pragma once

#include <cmath>

#include "models/kernels/channel_sums.h"

namespace dtrain::models::kernels {

// Pointers are to the device's memory; x is aligned to 16 bytes.
struct StatisticsArguments {
  const void* x;
  int64_t rows, channels;
  SumsMemory sums;
  float *mean, *variance, *inverse_std;  // results: variance is Σ(x − mean)² / rows, inverse_std 1 / √(variance + ε)
  float *running_mean, *running_var;  // null: there are none
  int64_t* batches;                   // gets one more; null: there is none
  double momentum, epsilon;
};

// Before the sums, for each thread: loads its row of the sample.
template <typename T>
DTRAIN_HOST_DEVICE void SampleRow(const StatisticsArguments& arguments, const Place& place, BlockMemory& memory) {
  if (place.channel >= arguments.channels) return;
  const int64_t row = place.row * arguments.rows / kRowsOfBlock;
  const Eight<T> x = LoadEight<T>(arguments.x, row * arguments.channels + place.channel);
  for (int i = 0; i < kWidth; ++i) {
    memory.sums[place.row][0][place.group * kWidth + i] = static_cast<float>(x.values[i]);
  }
}

// Then, for each thread.
inline DTRAIN_HOST_DEVICE void FindShift(int thread, BlockMemory& memory) {
  if (thread >= kChannelsOfBlock) return;
  float total = 0;
  for (int row = 0; row < kRowsOfBlock; ++row) total += memory.sums[row][0][thread];
  memory.shift[thread] = total / kRowsOfBlock;
}

// The sums of a thread over its rows: Σ(x − shift) and Σ(x − shift)².
template <typename T>
DTRAIN_HOST_DEVICE ChannelSums StatisticsThread(const StatisticsArguments& arguments, const Place& place,
                                                const BlockMemory& memory) {
  ChannelSums sums = {};
  if (place.channel >= arguments.channels) return sums;
  float shift[kWidth];
  for (int i = 0; i < kWidth; ++i) shift[i] = memory.shift[place.group * kWidth + i];
  const auto add = [&](const Eight<T>& x) {
    for (int i = 0; i < kWidth; ++i) {
      const float shifted = static_cast<float>(x.values[i]) - shift[i];
      sums.first[i] += shifted;
      sums.second[i] += shifted * shifted;
    }
  };
  // Several loads are on their way at once.
  constexpr int kAtOnce = 4;
  int64_t row = place.first_row;
  for (; row + (kAtOnce - 1) * place.row_step < arguments.rows; row += kAtOnce * place.row_step) {
    Eight<T> x[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i) {
      x[i] = LoadEight<T>(arguments.x, (row + i * place.row_step) * arguments.channels + place.channel);
    }
    for (int i = 0; i < kAtOnce; ++i) add(x[i]);
  }
  for (; row < arguments.rows; row += place.row_step) {
    add(LoadEight<T>(arguments.x, row * arguments.channels + place.channel));
  }
  return sums;
}

// `shifted` and `squared` are the sums over all rows. The running variance takes the unbiased one, as in ATen.
inline DTRAIN_HOST_DEVICE void FinishStatistics(const StatisticsArguments& arguments, int64_t channel, double shift,
                                                double shifted, double squared) {
  const auto rows = static_cast<double>(arguments.rows);
  const double from_shift = shifted / rows;
  double variance = squared / rows - from_shift * from_shift;
  if (variance < 0) variance = 0;  // NaN stays
  const double mean = shift + from_shift;
  arguments.mean[channel] = static_cast<float>(mean);
  arguments.variance[channel] = static_cast<float>(variance);
  arguments.inverse_std[channel] = static_cast<float>(1 / sqrt(variance + arguments.epsilon));
  if (arguments.running_mean != nullptr) {
    const auto move = [&](float& running, double to) {
      running = static_cast<float>(running + arguments.momentum * (to - running));
    };
    move(arguments.running_mean[channel], mean);
    move(arguments.running_var[channel], variance * (rows / (rows - 1)));
  }
  if (channel == 0 && arguments.batches != nullptr) ++*arguments.batches;
}

// Starts the kernel on `stream` (a cudaStream_t) of the current device. Returns a cudaError_t.
int LaunchStatistics(const StatisticsArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
