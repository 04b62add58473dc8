// Rotary positions (Su et al. 2021, arXiv:2104.09864): element i of the first half of a head's features and element i
// of the second are turned together, by an angle of the token's position. Queries and keys are turned where they lie,
// side by side in the result of one product. Backward, their gradients are turned back while they and the values'
// become one matrix again.
#pragma once

#include "models/kernels/column_sums.h"

namespace dtrain::models::kernels {

// Pointers are to the device's memory and aligned to 16 bytes. All but the angles have the type that `Element` names.
struct RotationArguments {
  // Of queries, keys and values, rows × columns. Values are copied as they are; null: they are where they shall be.
  const void* from[kMostJoined];
  int64_t stride[kMostJoined];  // elements from row to row of each
  void* to;                     // rows × 3 · columns; `from` may point into it
  const float *cosine, *sine;   // of each row's angles; features / 2 of them
  int64_t angle_stride;         // elements from row to row of both; a multiple of kWidth
  int64_t rows, columns;
  int64_t features;  // of a head: a multiple of 2 · kWidth
  bool back;         // by the opposite angles
};

// A thread turns eight pairs in each of its rows.
template <typename T>
DTRAIN_HOST_DEVICE void RotateThread(const RotationArguments& arguments, int64_t thread, int64_t threads) {
  const int64_t pairs = arguments.columns / 2, half = arguments.features / 2;
  const int64_t matrices = arguments.from[kMostJoined - 1] == nullptr ? kMostJoined - 1 : kMostJoined;
  const Rows of(matrices * pairs, arguments.rows, thread, threads);
  const int64_t which = of.channel / pairs, pair = of.channel % pairs;
  const int64_t angle = pair % half, column = pair / half * arguments.features + angle;
  const void* const from = which == 0 ? arguments.from[0] : which == 1 ? arguments.from[1] : arguments.from[2];
  const int64_t stride = which == 0 ? arguments.stride[0] : which == 1 ? arguments.stride[1] : arguments.stride[2];
  const bool turns = which < kMostJoined - 1;
  for (int64_t row = of.first; row < arguments.rows; row += of.step) {
    Eight<T> first = LoadEight<T>(from, row * stride + column),
             second = LoadEight<T>(from, row * stride + column + half);
    if (turns) {
      const Eight<float> cosine = LoadEight<float>(arguments.cosine, row * arguments.angle_stride + angle);
      Eight<float> sine = LoadEight<float>(arguments.sine, row * arguments.angle_stride + angle);
      DTRAIN_UNROLL
      for (int i = 0; i < kWidth; ++i) {
        const float a = ToFloat(first, i), b = ToFloat(second, i);
        const float s = arguments.back ? -sine.values[i] : sine.values[i];
        first.values[i] = static_cast<T>(a * cosine.values[i] - b * s);
        second.values[i] = static_cast<T>(b * cosine.values[i] + a * s);
      }
    }
    const int64_t to = (row * kMostJoined + which) * arguments.columns + column;
    StoreEight<T>(arguments.to, to, first);
    StoreEight<T>(arguments.to, to + half, second);
  }
}

// Starts a launch on `stream` (a cudaStream_t) of the current device. Returns a cudaError_t.
int LaunchRotation(const RotationArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
