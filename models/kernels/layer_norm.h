// A residual sum, z + dropout(γ · (x + b)), its LayerNorm, or both, and their gradients: all that lies between a
// product and the next one in a network of residuals, in one pass forward and one backward. The sum is rounded to the
// tensors' type before its statistics are taken, so that the backward pass, which reads it again, has the same.
#pragma once

#include <cmath>
#include <type_traits>

#include "models/kernels/column_sums.h"
#include "models/kernels/philox.h"

namespace dtrain::models::kernels {

constexpr int kMostWarpsOfRow = 16;
constexpr int64_t kMostColumnsOfRow = static_cast<int64_t>(kMostWarpsOfRow) * kColumnsOfBlock;

// What a launch computes.
enum class NormForm {
  kAfter,          // y = LayerNorm(z + dropout(x + b)): norms stand behind sums
  kBefore,         // the same of γ · (x + b), and the sum, to which more will be added, is a result of its own
  kSumAlone,       // that sum, and no norm
  kFirst,          // y = dropout(LayerNorm(z + x + b)), as of embeddings; z and b may be missing
  kFirstOfFloats,  // the same, where x and z are float32 whatever the type of the other tensors
};

constexpr DTRAIN_HOST_DEVICE bool Normalises(NormForm form) { return form != NormForm::kSumAlone; }
constexpr DTRAIN_HOST_DEVICE bool NormalisesFirst(NormForm form) {
  return form == NormForm::kFirst || form == NormForm::kFirstOfFloats;
}
// Whether there may be a γ, and dropout of whole samples.
constexpr DTRAIN_HOST_DEVICE bool Scales(NormForm form) {
  return form == NormForm::kBefore || form == NormForm::kSumAlone;
}

// The vectors whose gradients are sums over columns. A form has some that follow each other.
enum NormVector { kNormWeight, kNormBias, kBiasOfX, kScaleOfX };
constexpr DTRAIN_HOST_DEVICE int FirstVector(NormForm form) { return Normalises(form) ? kNormWeight : kBiasOfX; }
constexpr DTRAIN_HOST_DEVICE int EndOfVectors(NormForm form) { return 1 + (Scales(form) ? kScaleOfX : kBiasOfX); }

// The type of x and z.
template <typename T, NormForm kForm>
using AddedType = std::conditional_t<kForm == NormForm::kFirstOfFloats, float, T>;

// Pointers are to the device's memory; those to void are aligned to 16 bytes and of the type that `Element` names.
struct AddNormArguments {
  NormForm form;
  const void *x, *residual;     // residual: null if `form` normalises first and there is nothing to add
  const float *x_bias, *scale;  // b and γ; null: 0 and 1
  const float *weight, *bias;   // of the norm; bias: null: 0
  void *sum, *y;                // sum: null: it is not kept, because it is x + b in x's type
  uint8_t* mask;                // what dropout keeps (MaskPlace); null: no dropout
  float *mean, *inverse_std;    // of each row of the sum
  int64_t rows, columns;
  int64_t rows_of_sample;  // dropout takes whole samples of so many rows; 0: elements
  float epsilon;
  Dropout dropout;
  RandomState random;
};

struct AddNormGradientArguments {
  NormForm form;
  // more_dy: null, or a second gradient: of the sum with kBefore, else of the same as dy, which is the sum with
  // kSumAlone.
  const void *dy, *more_dy;
  const void* sum;  // null: it is x + b
  const void* x;    // null: neither the sum nor γ's gradient needs it
  const float *x_bias, *scale;
  const uint8_t* mask;
  const float *weight, *mean, *inverse_std;
  void *dresidual, *dx;  // null: not written. dx without γ and dropout of x + b is dresidual
  int64_t rows, columns;
  int64_t rows_of_sample;
  float dropout_scale;  // Dropout::scale
  ColumnSums sums;      // of the form's vectors, each `columns`. Each RowPlace::part writes one part.
};

// How many neighbouring threads work on a row, eight columns each: whole warps, or, for a narrow row, a part of one.
inline DTRAIN_HOST_DEVICE int LanesOfRow(int64_t columns) {
  int lanes = static_cast<int>(NumTiles(columns)) * kLanes;
  while (lanes <= kLanes && lanes > 1 && lanes / 2 * kWidth >= columns) lanes /= 2;
  return lanes;
}

// How many threads a block has, and for how many rows side by side.
inline DTRAIN_HOST_DEVICE int ThreadsOfRows(int64_t columns) { return static_cast<int>(NumTiles(columns)) * kLanes; }
inline DTRAIN_HOST_DEVICE int RowsOfBlock(int64_t columns) { return ThreadsOfRows(columns) / LanesOfRow(columns); }

// The place of a thread: it works on eight columns of kRowsAtOnce neighbouring rows at once. A block does so for all of
// its rows side by side, which begin at first_row, and then for those row_step further on.
struct RowPlace {
  int lanes;
  int64_t column, first_row, row_step, row_of_block, part;

  DTRAIN_HOST_DEVICE RowPlace(int64_t columns, int64_t block, int64_t blocks, int thread) : lanes(LanesOfRow(columns)) {
    const int64_t rows = RowsOfBlock(columns), row = thread / lanes;
    column = static_cast<int64_t>(thread % lanes) * kWidth;
    first_row = block * rows * kRowsAtOnce;
    row_step = blocks * rows * kRowsAtOnce;
    row_of_block = row * kRowsAtOnce;
    part = block * rows + row;
  }
};

// Sums over the rows that a thread works on: each thread's are added up over the lanes of the row between two steps.
using RowSums = float[kRowsAtOnce];

// The rows of a thread at one time, and its columns.
struct RowsAtOnce {
  int64_t first, column, columns;
  int count;

  DTRAIN_HOST_DEVICE RowsAtOnce(const RowPlace& place, int64_t first_of_block, int64_t all_rows, int64_t all_columns)
      : first(first_of_block + place.row_of_block), column(place.column), columns(all_columns), count(0) {
    if (column >= columns || first >= all_rows) return;
    count = all_rows - first < kRowsAtOnce ? static_cast<int>(all_rows - first) : kRowsAtOnce;
  }
  DTRAIN_HOST_DEVICE int64_t At(int r) const { return (first + r) * columns + column; }
  // Where the mask has the bits of row r: bit i of byte k is set if element 8 k + i is kept; of samples, each row has a
  // byte.
  DTRAIN_HOST_DEVICE int64_t MaskPlace(int r, bool of_samples) const { return of_samples ? first + r : At(r) / kWidth; }
};

// The work of a thread on kRowsAtOnce rows, in three steps, of which a form without norm has the first.
template <typename T, NormForm kForm>
class AddNormRows {
 public:
  DTRAIN_HOST_DEVICE AddNormRows(const AddNormArguments& arguments, const RowPlace& place, int64_t first_of_block)
      : of_(arguments), rows_(place, first_of_block, arguments.rows, arguments.columns) {}

  // Writes the sum and returns its sums.
  DTRAIN_HOST_DEVICE void Add(const RandomNumbers& random, RowSums& sums) {
    DTRAIN_UNROLL
    for (float& sum : sums) sum = 0;
    if (rows_.count == 0) return;
    const Eight<float> x_bias = LoadVector(of_.x_bias, rows_.column, 0);
    Eight<float> scale = {};
    if constexpr (Scales(kForm)) scale = LoadVector(of_.scale, rows_.column, 1);
    Eight<X> x[kRowsAtOnce], residual[kRowsAtOnce];
    const bool adds = !NormalisesFirst(kForm) || of_.residual != nullptr;
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      residual[r] = {};
      if (r >= rows_.count) continue;
      x[r] = LoadEight<X>(of_.x, rows_.At(r));
      if (adds) residual[r] = LoadEight<X>(of_.residual, rows_.At(r));
    }
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      if (r >= rows_.count) break;
      const bool drops = !NormalisesFirst(kForm) && of_.mask != nullptr;
      const unsigned kept = drops ? Kept(random, r) : 0xFFU;
      Eight<T> sum;
      DTRAIN_UNROLL
      for (int i = 0; i < kWidth; ++i) {
        float value = ToFloat(x[r], i) + x_bias.values[i];
        if constexpr (Scales(kForm)) value *= scale.values[i];
        // A product, because a dropped NaN must stay one: a step that is not finite must be seen.
        if (drops) value *= (kept >> i & 1U) != 0 ? of_.dropout.scale : 0.0F;
        sum.values[i] = static_cast<T>(value + ToFloat(residual[r], i));
        // In the same loop, because nvcc needs 40 registers more for a second one.
        values_[r][i] = ToFloat(sum, i);
        sums[r] += values_[r][i];
      }
      if (!NormalisesFirst(kForm) || of_.sum != nullptr) StoreEight<T>(of_.sum, rows_.At(r), sum);
    }
  }

  // Takes the sums of whole rows. Returns the sums of squared distances from the mean.
  DTRAIN_HOST_DEVICE void Centre(const RowSums& sums, RowSums& squares) {
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      mean_[r] = sums[r] / static_cast<float>(of_.columns);
      squares[r] = 0;
      if (r >= rows_.count) continue;
      DTRAIN_UNROLL
      for (int i = 0; i < kWidth; ++i) {
        values_[r][i] -= mean_[r];
        squares[r] += values_[r][i] * values_[r][i];
      }
    }
  }

  // Takes the squares of whole rows. Writes y and the statistics.
  DTRAIN_HOST_DEVICE void Normalise(const RandomNumbers& random, const RowSums& squares) const {
    if (rows_.count == 0) return;
    const Eight<float> weight = LoadEight<float>(of_.weight, rows_.column);
    const Eight<float> bias = LoadVector(of_.bias, rows_.column, 0);
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      if (r >= rows_.count) break;
      const float inverse_std = 1.0F / sqrtf(squares[r] / static_cast<float>(of_.columns) + of_.epsilon);
      const bool drops = NormalisesFirst(kForm) && of_.mask != nullptr;
      const unsigned kept = drops ? Kept(random, r) : 0xFFU;
      Eight<T> y;
      DTRAIN_UNROLL
      for (int i = 0; i < kWidth; ++i) {
        float value = values_[r][i] * inverse_std * weight.values[i] + bias.values[i];
        if (drops) value *= (kept >> i & 1U) != 0 ? of_.dropout.scale : 0.0F;
        y.values[i] = static_cast<T>(value);
      }
      StoreEight<T>(of_.y, rows_.At(r), y);
      if (rows_.column != 0) continue;
      of_.mean[rows_.first + r] = mean_[r];
      of_.inverse_std[rows_.first + r] = inverse_std;
    }
  }

 private:
  using X = AddedType<T, kForm>;

  // Draws which of the eight elements of row r are kept, and writes them down.
  DTRAIN_HOST_DEVICE unsigned Kept(const RandomNumbers& random, int r) const {
    const bool of_samples = Scales(kForm) && of_.rows_of_sample > 0;
    const int64_t place = rows_.MaskPlace(r, of_samples);
    unsigned kept = KeptBits(random, of_samples ? place / of_.rows_of_sample : place, of_.dropout.threshold);
    if (of_samples) kept = (kept & 1U) != 0 ? 0xFFU : 0;
    if (!of_samples || rows_.column == 0) of_.mask[place] = static_cast<uint8_t>(kept);
    return kept;
  }

  const AddNormArguments& of_;
  const RowsAtOnce rows_;
  float values_[kRowsAtOnce][kWidth], mean_[kRowsAtOnce];
};

// The sums of a thread over its rows, for its eight columns, by NormVector.
struct AddNormSums {
  float of[kScaleOfX + 1][kWidth] = {};
};

// The backward work of a thread on kRowsAtOnce rows, in two steps.
template <typename T, NormForm kForm>
class AddNormGradientRows {
 public:
  DTRAIN_HOST_DEVICE AddNormGradientRows(const AddNormGradientArguments& arguments, const RowPlace& place,
                                         int64_t first_of_block)
      : of_(arguments), rows_(place, first_of_block, arguments.rows, arguments.columns) {}

  // Returns sums of g = dy · γ and of g · x̂. Without a norm, g is the sum's gradient.
  DTRAIN_HOST_DEVICE void Load(AddNormSums& columns, RowSums& sums, RowSums& products) {
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) sums[r] = products[r] = 0;
    if (rows_.count == 0) return;
    // The sum may be x + b.
    const void* const read = kForm == NormForm::kFirst && of_.sum == nullptr ? of_.x : of_.sum;
    Eight<float> weight = {}, x_bias = {};
    if constexpr (Normalises(kForm)) weight = LoadEight<float>(of_.weight, rows_.column);
    if constexpr (kForm == NormForm::kFirst) x_bias = LoadVector(of_.x_bias, rows_.column, 0);
    Eight<T> dy[kRowsAtOnce], more_dy[kRowsAtOnce], sum[kRowsAtOnce];
    float mean[kRowsAtOnce];
    const bool adds = kForm != NormForm::kBefore && of_.more_dy != nullptr;
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      if (r >= rows_.count) continue;
      dy[r] = LoadEight<T>(of_.dy, rows_.At(r));
      if (adds) more_dy[r] = LoadEight<T>(of_.more_dy, rows_.At(r));
      if constexpr (Normalises(kForm)) {
        sum[r] = LoadEight<T>(read, rows_.At(r));
        mean[r] = of_.mean[rows_.first + r];
        inverse_std_[r] = of_.inverse_std[rows_.first + r];
      }
    }
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      if (r >= rows_.count) break;
      const bool dropped = NormalisesFirst(kForm) && of_.mask != nullptr;
      const unsigned kept = dropped ? of_.mask[rows_.MaskPlace(r, false)] : 0xFFU;
      DTRAIN_UNROLL
      for (int i = 0; i < kWidth; ++i) {
        float gradient = ToFloat(dy[r], i);
        if (adds) gradient += ToFloat(more_dy[r], i);
        gradient_[r][i] = gradient;
        if constexpr (Normalises(kForm)) {
          if (dropped) gradient *= (kept >> i & 1U) != 0 ? of_.dropout_scale : 0.0F;
          float value = ToFloat(sum[r], i);
          if (kForm == NormForm::kFirst && of_.sum == nullptr) {
            value = static_cast<float>(static_cast<T>(value + x_bias.values[i]));
          }
          normalised_[r][i] = (value - mean[r]) * inverse_std_[r];
          columns.of[kNormBias][i] += gradient;
          columns.of[kNormWeight][i] += gradient * normalised_[r][i];
          gradient_[r][i] = gradient * weight.values[i];
          sums[r] += gradient_[r][i];
          products[r] += gradient_[r][i] * normalised_[r][i];
        }
      }
    }
  }

  // Takes the sums of whole rows. Writes the gradients of residual and x.
  DTRAIN_HOST_DEVICE void Store(const RowSums& sums, const RowSums& products, AddNormSums& columns) const {
    if (rows_.count == 0) return;
    const bool scales = Scales(kForm) && of_.scale != nullptr,
               adds = kForm == NormForm::kBefore && of_.more_dy != nullptr;
    // Loaded as late as here, because there are no registers to keep them in.
    Eight<T> more_dy[kRowsAtOnce], x[kRowsAtOnce];
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      more_dy[r] = x[r] = {};
      if (r >= rows_.count) continue;
      if (adds) more_dy[r] = LoadEight<T>(of_.more_dy, rows_.At(r));
      if (scales) x[r] = LoadEight<T>(of_.x, rows_.At(r));
    }
    Eight<float> scale = {}, x_bias = {};
    if (scales) {
      scale = LoadEight<float>(of_.scale, rows_.column);
      x_bias = LoadVector(of_.x_bias, rows_.column, 0);
    }
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      if (r >= rows_.count) break;
      const float mean = sums[r] / static_cast<float>(of_.columns);
      const float slope = products[r] / static_cast<float>(of_.columns);
      const bool drops = !NormalisesFirst(kForm) && of_.mask != nullptr;
      const unsigned kept = drops ? of_.mask[rows_.MaskPlace(r, Scales(kForm) && of_.rows_of_sample > 0)] : 0xFFU;
      Eight<X> dresidual, dx;
      DTRAIN_UNROLL
      for (int i = 0; i < kWidth; ++i) {
        float gradient = gradient_[r][i];
        if constexpr (Normalises(kForm)) gradient = (gradient - mean - normalised_[r][i] * slope) * inverse_std_[r];
        if (adds) gradient += ToFloat(more_dy[r], i);
        dresidual.values[i] = static_cast<X>(gradient);
        if (drops) gradient *= (kept >> i & 1U) != 0 ? of_.dropout_scale : 0.0F;
        if (scales) {
          columns.of[kScaleOfX][i] += gradient * (ToFloat(x[r], i) + x_bias.values[i]);
          gradient *= scale.values[i];
        }
        dx.values[i] = static_cast<X>(gradient);
        columns.of[kBiasOfX][i] += gradient;
      }
      if (kForm != NormForm::kSumAlone || of_.dresidual != nullptr)
        StoreEight<X>(of_.dresidual, rows_.At(r), dresidual);
      if (!NormalisesFirst(kForm) && of_.dx != nullptr) StoreEight<X>(of_.dx, rows_.At(r), dx);
    }
  }

 private:
  using X = AddedType<T, kForm>;

  const AddNormGradientArguments& of_;
  const RowsAtOnce rows_;
  float gradient_[kRowsAtOnce][kWidth], normalised_[kRowsAtOnce][kWidth], inverse_std_[kRowsAtOnce];
};

// After all rows, for each thread: writes its columns' part of the sums.
template <NormForm kForm>
DTRAIN_HOST_DEVICE void WriteAddNormSums(const AddNormGradientArguments& arguments, const RowPlace& place,
                                         const AddNormSums& columns) {
  if (place.column >= arguments.columns) return;
  float* const to = arguments.sums.partial + place.part * arguments.sums.columns + place.column;
  DTRAIN_UNROLL
  for (int vector = FirstVector(kForm); vector < EndOfVectors(kForm); ++vector) {
    DTRAIN_UNROLL
    for (int i = 0; i < kWidth; ++i) to[(vector - FirstVector(kForm)) * arguments.columns + i] = columns.of[vector][i];
  }
}

// Calls with(std::integral_constant<NormForm, …>{}).
template <typename With>
void ForForm(NormForm form, const With& with) {
  if (form == NormForm::kAfter) return with(std::integral_constant<NormForm, NormForm::kAfter>{});
  if (form == NormForm::kBefore) return with(std::integral_constant<NormForm, NormForm::kBefore>{});
  if (form == NormForm::kSumAlone) return with(std::integral_constant<NormForm, NormForm::kSumAlone>{});
  if (form == NormForm::kFirst) return with(std::integral_constant<NormForm, NormForm::kFirst>{});
  with(std::integral_constant<NormForm, NormForm::kFirstOfFloats>{});
}

// Returns the number of parts of LaunchAddNormGradient (ColumnSums::parts) on the current device.
int NumNormParts(int64_t rows, int64_t columns);

// Start a launch, and LaunchAddNormGradient that of the sums, too, on `stream` (a cudaStream_t) of the current device.
// Return a cudaError_t.
int LaunchAddNorm(const AddNormArguments& arguments, Element element, void* stream);
int LaunchAddNormGradient(const AddNormGradientArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
