// y = LayerNorm(z + dropout(x + b)), and its gradients, with a block for kRowsAtOnce rows at a time: all that lies
// between a product and the next one in a transformer, in one pass forward and one backward. The sum is rounded to the
// tensors' type before its statistics are taken, so that the backward pass, which reads it again, has the same. The
// embeddings at the beginning of a transformer are y = dropout(LayerNorm(z + x + b)).
#pragma once

#include <cmath>
#include <type_traits>

#include "models/kernels/column_sums.h"
#include "models/kernels/philox.h"

namespace dtrain::models::kernels {

constexpr int kMostWarpsOfRow = 16;
constexpr int64_t kMostColumnsOfRow = static_cast<int64_t>(kMostWarpsOfRow) * kColumnsOfBlock;

// What a launch computes.
struct NormForm {
  bool normalises_first;  // dropout is applied to the result of LayerNorm, instead of to x + b
  bool adds_floats;       // x and z are float32 whatever the type of the other tensors; needs `normalises_first`
};

// Pointers are to the device's memory; those to void are aligned to 16 bytes and of the type that `Element` names.
struct AddNormArguments {
  NormForm form;
  const void *x, *residual;  // residual and x_bias: null if `normalises_first` and there is nothing to add
  const float *x_bias, *weight, *bias;
  void *sum, *y;
  uint8_t* mask;  // bit i of byte k is set if dropout keeps element 8 k + i of what it is applied to; null: no dropout
  float *mean, *inverse_std;  // of each row of the sum
  int64_t rows, columns;
  float epsilon;
  Dropout dropout;
  RandomState random;
};

struct AddNormGradientArguments {
  NormForm form;
  const void *dy, *more_dy;  // more_dy: null, or a second gradient of y, which is added to dy
  const void* sum;
  const uint8_t* mask;
  const float *weight, *mean, *inverse_std;
  void *dresidual, *dx;  // dx: null without dropout of x + b, because it is dresidual then
  int64_t rows, columns;
  float scale;      // Dropout::scale
  ColumnSums sums;  // 3 × columns: the gradients of weight, bias and x_bias. Each block writes one part.
};

// The place of a thread: it works on eight columns of each row of its block. A block works on kRowsAtOnce neighbouring
// rows, then on those `blocks` · kRowsAtOnce further on.
struct RowPlace {
  int64_t column, first_row, row_step;

  DTRAIN_HOST_DEVICE RowPlace(int64_t block, int64_t blocks, int thread)
      : column(static_cast<int64_t>(thread) * kWidth), first_row(block * kRowsAtOnce), row_step(blocks * kRowsAtOnce) {}
};

// Sums over the rows that a block works on: each thread's are added up over the block between two steps.
using RowSums = float[kRowsAtOnce];

// The work of a thread on kRowsAtOnce rows, in three steps. x and z have type X, kFirst is NormForm::normalises_first.
template <typename T, typename X, bool kFirst>
class AddNormRows {
 public:
  DTRAIN_HOST_DEVICE AddNormRows(const AddNormArguments& arguments, const RowPlace& place, int64_t first)
      : of_(arguments), column_(place.column), first_(first), count_(0) {
    if (column_ >= of_.columns) return;
    count_ = of_.rows - first < kRowsAtOnce ? static_cast<int>(of_.rows - first) : kRowsAtOnce;
  }

  // Writes the sum and returns its sums.
  DTRAIN_HOST_DEVICE void Add(const RandomNumbers& random, RowSums& sums) {
    if (count_ == 0) {
      for (float& sum : sums) sum = 0;
      return;
    }
    const Eight<float> x_bias = LoadAdded<float>(of_.x_bias, column_);
    Eight<X> x[kRowsAtOnce], residual[kRowsAtOnce];
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      sums[r] = 0;
      if (r >= count_) continue;
      x[r] = LoadEight<X>(of_.x, At(r));
      residual[r] = LoadAdded<X>(of_.residual, At(r));
    }
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      if (r >= count_) break;
      const bool drops = !kFirst && of_.mask != nullptr;
      const int64_t group = At(r) / kWidth;
      const unsigned kept = drops ? KeptBits(random, group, of_.dropout.threshold) : 0xFFU;
      Eight<T> sum;
      DTRAIN_UNROLL
      for (int i = 0; i < kWidth; ++i) {
        float value = ToFloat(x[r], i) + x_bias.values[i];
        // A product, because a dropped NaN must stay one: a step that is not finite must be seen.
        if (drops) value *= (kept >> i & 1U) != 0 ? of_.dropout.scale : 0.0F;
        sum.values[i] = static_cast<T>(value + ToFloat(residual[r], i));
        // In the same loop, because nvcc needs 40 registers more for a second one.
        values_[r][i] = ToFloat(sum, i);
        sums[r] += values_[r][i];
      }
      StoreEight<T>(of_.sum, At(r), sum);
      if (drops) of_.mask[group] = static_cast<uint8_t>(kept);
    }
  }

  // Takes the sums of whole rows. Returns the sums of squared distances from the mean.
  DTRAIN_HOST_DEVICE void Centre(const RowSums& sums, RowSums& squares) {
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      mean_[r] = sums[r] / static_cast<float>(of_.columns);
      squares[r] = 0;
      if (r >= count_) continue;
      DTRAIN_UNROLL
      for (int i = 0; i < kWidth; ++i) {
        values_[r][i] -= mean_[r];
        squares[r] += values_[r][i] * values_[r][i];
      }
    }
  }

  // Takes the squares of whole rows. Writes y and the statistics.
  DTRAIN_HOST_DEVICE void Normalise(const RandomNumbers& random, const RowSums& squares) const {
    if (count_ == 0) return;
    const Eight<float> weight = LoadEight<float>(of_.weight, column_), bias = LoadEight<float>(of_.bias, column_);
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      if (r >= count_) break;
      const float inverse_std = 1.0F / sqrtf(squares[r] / static_cast<float>(of_.columns) + of_.epsilon);
      const bool drops = kFirst && of_.mask != nullptr;
      const unsigned kept = drops ? KeptBits(random, At(r) / kWidth, of_.dropout.threshold) : 0xFFU;
      Eight<T> y;
      DTRAIN_UNROLL
      for (int i = 0; i < kWidth; ++i) {
        float value = values_[r][i] * inverse_std * weight.values[i] + bias.values[i];
        if (drops) value *= (kept >> i & 1U) != 0 ? of_.dropout.scale : 0.0F;
        y.values[i] = static_cast<T>(value);
      }
      if (drops) of_.mask[At(r) / kWidth] = static_cast<uint8_t>(kept);
      StoreEight<T>(of_.y, At(r), y);
      if (column_ != 0) continue;
      of_.mean[first_ + r] = mean_[r];
      of_.inverse_std[first_ + r] = inverse_std;
    }
  }

 private:
  DTRAIN_HOST_DEVICE int64_t At(int r) const { return (first_ + r) * of_.columns + column_; }

  template <typename Added>
  DTRAIN_HOST_DEVICE static Eight<Added> LoadAdded(const void* tensor, int64_t at) {
    if constexpr (kFirst) {
      if (tensor == nullptr) return {};
    }
    return LoadEight<Added>(tensor, at);
  }

  const AddNormArguments& of_;
  int64_t column_, first_;
  int count_;  // of rows
  float values_[kRowsAtOnce][kWidth], mean_[kRowsAtOnce];
};

// The sums of a thread over its rows, for its eight columns.
struct AddNormSums {
  float weight[kWidth] = {}, bias[kWidth] = {}, x_bias[kWidth] = {};
};

// The backward work of a thread on kRowsAtOnce rows, in two steps.
template <typename T, typename X, bool kFirst>
class AddNormGradientRows {
 public:
  DTRAIN_HOST_DEVICE AddNormGradientRows(const AddNormGradientArguments& arguments, const RowPlace& place,
                                         int64_t first)
      : of_(arguments), column_(place.column), first_(first), count_(0) {
    if (column_ >= of_.columns) return;
    count_ = of_.rows - first < kRowsAtOnce ? static_cast<int>(of_.rows - first) : kRowsAtOnce;
  }

  // Returns sums of g = dy · γ and of g · x̂.
  DTRAIN_HOST_DEVICE void Load(AddNormSums& columns, RowSums& sums, RowSums& products) {
    if (count_ == 0) {
      for (int r = 0; r < kRowsAtOnce; ++r) sums[r] = products[r] = 0;
      return;
    }
    const Eight<float> weight = LoadEight<float>(of_.weight, column_);
    Eight<T> dy[kRowsAtOnce], more_dy[kRowsAtOnce], sum[kRowsAtOnce];
    float mean[kRowsAtOnce];
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      sums[r] = products[r] = 0;
      if (r >= count_) continue;
      dy[r] = LoadEight<T>(of_.dy, At(r));
      if (of_.more_dy != nullptr) more_dy[r] = LoadEight<T>(of_.more_dy, At(r));
      sum[r] = LoadEight<T>(of_.sum, At(r));
      mean[r] = of_.mean[first_ + r];
      inverse_std_[r] = of_.inverse_std[first_ + r];
    }
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      if (r >= count_) break;
      const bool dropped = kFirst && of_.mask != nullptr;
      const unsigned kept = dropped ? of_.mask[At(r) / kWidth] : 0xFFU;
      DTRAIN_UNROLL
      for (int i = 0; i < kWidth; ++i) {
        float gradient = ToFloat(dy[r], i);
        if (of_.more_dy != nullptr) gradient += ToFloat(more_dy[r], i);
        if (dropped) gradient *= (kept >> i & 1U) != 0 ? of_.scale : 0.0F;
        normalised_[r][i] = (ToFloat(sum[r], i) - mean[r]) * inverse_std_[r];
        columns.bias[i] += gradient;
        columns.weight[i] += gradient * normalised_[r][i];
        gradient_[r][i] = gradient * weight.values[i];
        sums[r] += gradient_[r][i];
        products[r] += gradient_[r][i] * normalised_[r][i];
      }
    }
  }

  // Takes the sums of whole rows. Writes the gradients of residual and x.
  DTRAIN_HOST_DEVICE void Store(const RowSums& sums, const RowSums& products, AddNormSums& columns) const {
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      if (r >= count_) break;
      const float mean = sums[r] / static_cast<float>(of_.columns);
      const float slope = products[r] / static_cast<float>(of_.columns);
      const unsigned kept = DropsX() ? of_.mask[At(r) / kWidth] : 0;
      Eight<X> dresidual, dx;
      DTRAIN_UNROLL
      for (int i = 0; i < kWidth; ++i) {
        const float gradient = (gradient_[r][i] - mean - normalised_[r][i] * slope) * inverse_std_[r];
        dresidual.values[i] = static_cast<X>(gradient);
        float of_x = gradient;
        if (DropsX()) {
          of_x *= (kept >> i & 1U) != 0 ? of_.scale : 0.0F;
          dx.values[i] = static_cast<X>(of_x);
        }
        columns.x_bias[i] += of_x;
      }
      StoreEight<X>(of_.dresidual, At(r), dresidual);
      if (DropsX()) StoreEight<X>(of_.dx, At(r), dx);
    }
  }

 private:
  DTRAIN_HOST_DEVICE int64_t At(int r) const { return (first_ + r) * of_.columns + column_; }
  DTRAIN_HOST_DEVICE bool DropsX() const { return !kFirst && of_.dx != nullptr; }

  const AddNormGradientArguments& of_;
  int64_t column_, first_;
  int count_;  // of rows
  float gradient_[kRowsAtOnce][kWidth], normalised_[kRowsAtOnce][kWidth], inverse_std_[kRowsAtOnce];
};

// After all rows, for each thread: writes its columns' part of the sums.
inline DTRAIN_HOST_DEVICE void WriteAddNormSums(const AddNormGradientArguments& arguments, const RowPlace& place,
                                                int64_t block, const AddNormSums& columns) {
  if (place.column >= arguments.columns) return;
  float* const to = arguments.sums.partial + block * arguments.sums.columns + place.column;
  DTRAIN_UNROLL
  for (int i = 0; i < kWidth; ++i) {
    to[i] = columns.weight[i];
    to[arguments.columns + i] = columns.bias[i];
    to[2 * arguments.columns + i] = columns.x_bias[i];
  }
}

// Calls with(T{}, X{}, std::bool_constant<kFirst>{}) for a form, with the types of AddNormRows.
template <typename T, typename With>
void ForForm(const NormForm& form, const With& with) {
  if (!form.normalises_first) return with(T{}, T{}, std::false_type{});
  if (form.adds_floats) return with(T{}, float{}, std::true_type{});
  with(T{}, T{}, std::true_type{});
}

inline DTRAIN_HOST_DEVICE int WarpsOfRow(int64_t columns) { return static_cast<int>(NumTiles(columns)); }

// Returns the number of blocks of LaunchAddNormGradient (ColumnSums::parts) on the current device.
int NumNormParts(int64_t rows, int64_t columns);

// Start a launch, and LaunchAddNormGradient that of the sums, too, on `stream` (a cudaStream_t) of the current device.
// Return a cudaError_t.
int LaunchAddNorm(const AddNormArguments& arguments, Element element, void* stream);
int LaunchAddNormGradient(const AddNormGradientArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
