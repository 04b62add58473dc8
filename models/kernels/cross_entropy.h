// The cross entropy of rows of logits, log Σ exp(x) − x[answer], and its gradient, softmax(x) − 1[answer], with a block
// for each row, which reads it once. Sums are float32 and taken relative to the largest logit so far (Milakov &
// Gimelshein 2018, arXiv:1805.02867). The gradient's kernel reads the logits again, so no softmax is kept in memory.
#pragma once

#include <cmath>

#include "models/kernels/column_sums.h"

namespace dtrain::models::kernels {

constexpr int kWarpsOfLogits = 16, kThreadsOfLogits = kWarpsOfLogits * kLanes;

// Pointers are to the device's memory, and those to void are aligned to 16 bytes. The logits, rows × columns, and their
// gradient have the type that `Element` names. Columns are a multiple of kWidth. A row whose answer is `ignored` has
// neither loss nor gradient. One whose answer is no column has NaN for both.
struct CrossEntropyArguments {
  const void* logits;
  const int64_t* answers;
  float *log_sum_exp, *loss;  // of each row
  int64_t rows, columns, ignored;
};

struct CrossEntropyGradientArguments {
  const void* logits;
  const int64_t* answers;
  const float *log_sum_exp, *dloss;  // dloss: of the sum of all rows' losses
  void* dlogits;
  int64_t rows, columns, ignored;
};

// A thread loads this many groups of eight logits before it works on them: 64 bytes.
template <typename T>
constexpr int kGroupsAtOnce = 64 / static_cast<int>(sizeof(Eight<T>));

// For half types, the fast function of a GPU is exact enough.
template <typename T>
DTRAIN_HOST_DEVICE float Exponential(float x) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) < sizeof(float)) return __expf(x);
#endif
  return expf(x);
}

// Σ exp(x) is `sum` · exp(`largest`). A NaN or ∞ among the logits makes `sum` NaN, but `largest` is never NaN.
struct ExpSum {
  float largest, sum;
};

// Returns what logits are taken relative to. −∞ − −∞ would be NaN.
inline DTRAIN_HOST_DEVICE float ReferenceOf(float largest) { return largest == -INFINITY ? 0.0F : largest; }

// Returns the sum relative to another largest logit.
template <typename T>
DTRAIN_HOST_DEVICE float RelativeTo(float largest, const ExpSum& of) {
  return of.sum * Exponential<T>(of.largest - ReferenceOf(largest));
}

template <typename T>
DTRAIN_HOST_DEVICE void AddLogits(const Eight<T>& logits, ExpSum& to) {
  float largest = to.largest;
  DTRAIN_UNROLL
  for (int i = 0; i < kWidth; ++i) largest = fmaxf(largest, ToFloat(logits, i));
  const float reference = ReferenceOf(largest);
  float sum = RelativeTo<T>(largest, to);
  DTRAIN_UNROLL
  for (int i = 0; i < kWidth; ++i) sum += Exponential<T>(ToFloat(logits, i) - reference);
  to = {largest, sum};
}

// Calls work(logits, column) for the groups of eight logits of a row that are a thread's.
template <typename T, typename Work>
DTRAIN_HOST_DEVICE void ForLogits(const void* logits, int64_t row, int64_t columns, int thread, const Work& work) {
  constexpr int kGroups = kGroupsAtOnce<T>;
  constexpr int64_t kStep = static_cast<int64_t>(kThreadsOfLogits) * kWidth;
  for (int64_t first = static_cast<int64_t>(thread) * kWidth; first < columns; first += kGroups * kStep) {
    Eight<T> groups[kGroups];
    DTRAIN_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      const int64_t column = first + g * kStep;
      if (column < columns) groups[g] = LoadEight<T>(logits, row * columns + column);
    }
    DTRAIN_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      const int64_t column = first + g * kStep;
      if (column < columns) work(groups[g], column);
    }
  }
}

// Forward, for each row: step 1, for each thread, unless the row is ignored.
template <typename T>
DTRAIN_HOST_DEVICE ExpSum SumLogits(const CrossEntropyArguments& arguments, int64_t row, int thread) {
  ExpSum sum{-INFINITY, 0};
  ForLogits<T>(arguments.logits, row, arguments.columns, thread,
               [&](const Eight<T>& logits, int64_t) { AddLogits(logits, sum); });
  return sum;
}

// Step 2, for one thread, with the sums of the warps.
template <typename T>
DTRAIN_HOST_DEVICE void FinishRow(const CrossEntropyArguments& arguments, int64_t row,
                                  const ExpSum (&of_warps)[kWarpsOfLogits]) {
  float largest = -INFINITY, sum = 0;
  DTRAIN_UNROLL
  for (const ExpSum& of_warp : of_warps) largest = fmaxf(largest, of_warp.largest);
  DTRAIN_UNROLL
  for (const ExpSum& of_warp : of_warps) sum += RelativeTo<T>(largest, of_warp);
  const int64_t answer = arguments.answers[row];
  const bool is_column = answer >= 0 && answer < arguments.columns;
  const float log_sum_exp = is_column ? largest + logf(sum) : NAN;
  const float of_answer =
      is_column ? static_cast<float>(static_cast<const T*>(arguments.logits)[row * arguments.columns + answer]) : 0;
  arguments.log_sum_exp[row] = log_sum_exp;
  arguments.loss[row] = log_sum_exp - of_answer;
}

// Instead of both steps, for one thread, if the row is ignored.
inline DTRAIN_HOST_DEVICE void IgnoreRow(const CrossEntropyArguments& arguments, int64_t row) {
  arguments.log_sum_exp[row] = 0;
  arguments.loss[row] = 0;
}

template <typename T>
DTRAIN_HOST_DEVICE void IgnoreRowGradient(const CrossEntropyGradientArguments& arguments, int64_t row, int thread) {
  constexpr int64_t kStep = static_cast<int64_t>(kThreadsOfLogits) * kWidth;
  Eight<T> zeros;
  DTRAIN_UNROLL
  for (T& zero : zeros.values) zero = static_cast<T>(0.0F);
  for (int64_t column = static_cast<int64_t>(thread) * kWidth; column < arguments.columns; column += kStep) {
    StoreEight<T>(arguments.dlogits, row * arguments.columns + column, zeros);
  }
}

// The gradient's work of a thread of a row.
template <typename T>
DTRAIN_HOST_DEVICE void CrossEntropyGradientThread(const CrossEntropyGradientArguments& arguments, int64_t row,
                                                   int thread) {
  const int64_t answer = arguments.answers[row];
  if (answer == arguments.ignored) return IgnoreRowGradient<T>(arguments, row, thread);
  const float log_sum_exp = arguments.log_sum_exp[row], dloss = *arguments.dloss;
  ForLogits<T>(arguments.logits, row, arguments.columns, thread, [&](const Eight<T>& logits, int64_t column) {
    const int64_t place = answer - column;
    Eight<T> dlogits;
    DTRAIN_UNROLL
    for (int i = 0; i < kWidth; ++i) {
      const float softmax = Exponential<T>(ToFloat(logits, i) - log_sum_exp);
      dlogits.values[i] = static_cast<T>((softmax - (place == i ? 1.0F : 0.0F)) * dloss);
    }
    StoreEight<T>(arguments.dlogits, row * arguments.columns + column, dlogits);
  });
}

// Start a launch on `stream` (a cudaStream_t) of the current device. Return a cudaError_t.
int LaunchCrossEntropy(const CrossEntropyArguments& arguments, Element element, void* stream);
int LaunchCrossEntropyGradient(const CrossEntropyGradientArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
