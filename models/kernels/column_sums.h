// Sums over all rows for each column of a matrix, always in the same order, in two launches: each block of the first
// writes the sums of its rows, the second adds up all blocks' in the order of their numbers. (channel_sums.h needs one
// launch, but a counter per column of blocks, which is not worthwhile where several sums are finished at once.) A
// launch that reads a matrix for another reason makes its sums on the way. The steps of a block are functions here. The
// kernel calls them with barriers between, a test in loops.
#pragma once

#include "models/kernels/channels_last.h"

namespace dtrain::models::kernels {

// A GPU has no instruction that takes a bfloat16 out of half a register, so nvcc gives each value a register of its
// own.
template <typename T>
struct IsUpperHalfOfFloat {
  static constexpr bool value = false;
};

// Returns value `i` of eight, which is a constant after unrolling.
template <typename T>
DTRAIN_HOST_DEVICE float ToFloat(const Eight<T>& eight, int i) {
#ifdef __CUDA_ARCH__
  if constexpr (IsUpperHalfOfFloat<T>::value) {
    const uint32_t pair = reinterpret_cast<const uint32_t*>(&eight)[i / 2];
    return __uint_as_float(i % 2 == 0 ? pair << 16U : pair & 0xFFFF0000U);
  }
#endif
  return static_cast<float>(eight.values[i]);
}

// Returns eight elements of a vector; null: all are `otherwise`.
inline DTRAIN_HOST_DEVICE Eight<float> LoadVector(const float* vector, int64_t at, float otherwise) {
  if (vector != nullptr) return LoadEight<float>(vector, at);
  Eight<float> eight;
  DTRAIN_UNROLL
  for (float& value : eight.values) value = otherwise;
  return eight;
}

// A block of the first launch has 32 groups of eight columns side by side; its warps work on different rows.
constexpr int kLanes = 32, kWarpsOfColumns = 8, kThreadsOfColumns = kLanes * kWarpsOfColumns;
constexpr int kColumnsOfBlock = kLanes * kWidth;
// A thread loads this many rows before it works on them, so that enough loads are on their way at once.
constexpr int kRowsAtOnce = 2;

// Where a launch writes its sums. Columns are those of all its sums together.
struct ColumnSums {
  float* partial;  // parts × columns
  float* sums;     // columns
  int64_t columns;
  int parts;
};

inline DTRAIN_HOST_DEVICE int64_t NumTiles(int64_t columns) {
  return (columns + kColumnsOfBlock - 1) / kColumnsOfBlock;
}

// The place of a thread of the first launch: block (`tile`, `part`) works on kColumnsOfBlock columns, and each of its
// warps on every parts · kWarpsOfColumns-th row.
struct ColumnPlace {
  int64_t first_column, column, first_row, row_step;
  int lane, warp;

  DTRAIN_HOST_DEVICE ColumnPlace(int64_t tile, int64_t part, int64_t parts, int thread)
      : first_column(tile * kColumnsOfBlock),
        row_step(parts * kWarpsOfColumns),
        lane(thread % kLanes),
        warp(thread / kLanes) {
    column = first_column + static_cast<int64_t>(lane) * kWidth;
    first_row = part * kWarpsOfColumns + warp;
  }
};

// What the threads of a block of the first launch share.
struct ColumnMemory {
  float sums[kWarpsOfColumns][kColumnsOfBlock];
};

// Calls work(row) for the rows of a place, kAtOnce of them at once: row, row + row_step, … below the end.
template <int kAtOnce = kRowsAtOnce, typename Work>
DTRAIN_HOST_DEVICE void ForRows(const ColumnPlace& place, int64_t end, const Work& work) {
  for (int64_t row = place.first_row; row < end; row += kAtOnce * place.row_step) work(row);
}

// Step 1, for each thread.
inline DTRAIN_HOST_DEVICE void KeepColumns(const ColumnPlace& place, const float (&sums)[kWidth],
                                           ColumnMemory& memory) {
  DTRAIN_UNROLL
  for (int i = 0; i < kWidth; ++i) memory.sums[place.warp][place.lane * kWidth + i] = sums[i];
}

// Step 2, for each thread: writes the sums of the block's columns, which are those from `first_column` on, below `end`.
inline DTRAIN_HOST_DEVICE void WriteColumn(const ColumnMemory& memory, int64_t first_column, int64_t end, int64_t part,
                                           int thread, const ColumnSums& sums) {
  if (first_column + thread >= end) return;
  float total = 0;
  for (int warp = 0; warp < kWarpsOfColumns; ++warp) total += memory.sums[warp][thread];
  sums.partial[part * sums.columns + first_column + thread] = total;
}

// A block of the second launch has a warp for every kSlicesOfColumn-th part of its columns.
constexpr int kSlicesOfColumn = 32, kThreadsOfFinish = kLanes * kSlicesOfColumn;

struct FinishMemory {
  double slices[kSlicesOfColumn][kLanes];
};

// Step 1 of the second launch, for each thread.
inline DTRAIN_HOST_DEVICE void AddColumnSlice(const ColumnSums& sums, int64_t block, int thread, FinishMemory& memory) {
  const int slice = thread / kLanes, lane = thread % kLanes;
  const int64_t column = block * kLanes + lane;
  double total = 0;
  if (column < sums.columns) {
#ifdef __CUDA_ARCH__
#pragma unroll 8
#endif
    for (int64_t part = slice; part < sums.parts; part += kSlicesOfColumn) {
      total += sums.partial[part * sums.columns + column];
    }
  }
  memory.slices[slice][lane] = total;
}

// Step 2 of the second launch, for each thread.
inline DTRAIN_HOST_DEVICE void FinishColumn(const ColumnSums& sums, int64_t block, int thread,
                                            const FinishMemory& memory) {
  const int64_t column = block * kLanes + thread;
  if (thread >= kLanes || column >= sums.columns) return;
  double total = 0;
  for (int slice = 0; slice < kSlicesOfColumn; ++slice) total += memory.slices[slice][thread];
  sums.sums[column] = static_cast<float>(total);
}

// Writes up to three matrices side by side into one, with the sums of its columns.
constexpr int kMostJoined = 3;

struct JoinArguments {
  const void* from[kMostJoined];
  int64_t stride[kMostJoined];  // elements from row to row of each
  void* to;                     // rows × sums.columns
  int64_t rows, columns;        // of each
  ColumnSums sums;
};

template <typename T>
DTRAIN_HOST_DEVICE void JoinThread(const JoinArguments& arguments, const ColumnPlace& place, float (&sums)[kWidth]) {
  DTRAIN_UNROLL
  for (float& sum : sums) sum = 0;
  if (place.column >= arguments.sums.columns) return;
  const int64_t which = place.column / arguments.columns;
  // Chosen by conditions, because nvcc copies arguments to slow memory to index them by a variable.
  const void* from = which == 0 ? arguments.from[0] : which == 1 ? arguments.from[1] : arguments.from[2];
  const int64_t stride = which == 0 ? arguments.stride[0] : which == 1 ? arguments.stride[1] : arguments.stride[2];
  const int64_t column = place.column - which * arguments.columns;
  ForRows(place, arguments.rows, [&](int64_t first) {
    Eight<T> values[kRowsAtOnce];
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const int64_t row = first + r * place.row_step;
      if (row < arguments.rows) values[r] = LoadEight<T>(from, row * stride + column);
    }
    DTRAIN_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const int64_t row = first + r * place.row_step;
      if (row >= arguments.rows) break;
      StoreEight<T>(arguments.to, row * arguments.sums.columns + place.column, values[r]);
      DTRAIN_UNROLL
      for (int i = 0; i < kWidth; ++i) sums[i] += ToFloat(values[r], i);
    }
  });
}

// Returns in how many parts the rows are cut for LaunchJoin and LaunchLinearUnitGradient (ColumnSums::parts) on the
// current device.
int NumColumnParts(int64_t rows, int64_t columns);

// Starts both launches on `stream` (a cudaStream_t) of the current device. Returns a cudaError_t.
int LaunchJoin(const JoinArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
