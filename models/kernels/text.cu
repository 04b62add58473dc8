// The kernels of a transformer and of a language model's loss around the functions of layer_norm.h, linear_unit.h,
// rotation.h, column_sums.h and cross_entropy.h.
#include <algorithm>

#include "models/kernels/cross_entropy.h"
#include "models/kernels/launch.cuh"
#include "models/kernels/layer_norm.h"
#include "models/kernels/linear_unit.h"
#include "models/kernels/rotation.h"

namespace dtrain::models::kernels {

namespace {

constexpr int kMostThreadsOfRow = kMostWarpsOfRow * kLanes;
// Threads of a processor of the GPU in the kernels whose blocks go on to further rows. A backward kernel's thread has
// more loads on their way, and its blocks each write partial sums, so there are fewer. Likewise where float32 is added.
constexpr int kForwardThreads = 768, kBackwardThreads = 512;
constexpr int kColumnBlocks = 3;  // of a processor

// What the warps of a block exchange, for each of `kCount` sums.
template <int kCount>
using WarpSums = float[kCount][kMostWarpsOfRow];

// Replaces each thread's values by their sums over the lanes of its row, added up in the same order in each thread.
// `memory` may be used again after another barrier.
template <int kCount>
__device__ void RowSum(float (&values)[kCount], int lanes, WarpSums<kCount>& memory) {
  const unsigned lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, warps = blockDim.x / kLanes;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      const float other = __shfl_xor_sync(0xFFFFFFFFU, values[i], distance);
      if (distance < lanes) values[i] += other;
    }
    if (warps > 1 && lane == 0) memory[i][warp] = values[i];
  }
  if (warps == 1) return;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    values[i] = memory[i][0];
    for (unsigned other = 1; other < warps; ++other) values[i] += memory[i][other];
  }
}

template <typename T, NormForm kForm>
__global__ void __launch_bounds__(kMostThreadsOfRow) AddNorm(const AddNormArguments arguments) {
  __shared__ WarpSums<kRowsAtOnce> of_sums, of_squares;  // each is written again after the other's barrier
  const RowPlace place(arguments.columns, blockIdx.x, gridDim.x, static_cast<int>(threadIdx.x));
  const RandomNumbers random(arguments.random);
  for (int64_t first = place.first_row; first < arguments.rows; first += place.row_step) {
    AddNormRows<T, kForm> rows(arguments, place, first);
    RowSums sums;
    rows.Add(random, sums);
    if constexpr (Normalises(kForm)) {
      RowSums squares;
      RowSum(sums, place.lanes, of_sums);
      rows.Centre(sums, squares);
      RowSum(squares, place.lanes, of_squares);
      rows.Normalise(random, squares);
    }
  }
}

template <typename T, NormForm kForm>
__global__ void __launch_bounds__(kMostThreadsOfRow) AddNormGradient(const AddNormGradientArguments arguments) {
  __shared__ WarpSums<2 * kRowsAtOnce> memory[2];  // used in turn, so each is written again after the other's barrier
  const RowPlace place(arguments.columns, blockIdx.x, gridDim.x, static_cast<int>(threadIdx.x));
  AddNormSums columns;
  int turn = 0;
  for (int64_t first = place.first_row; first < arguments.rows; first += place.row_step) {
    AddNormGradientRows<T, kForm> rows(arguments, place, first);
    RowSums sums, products;
    rows.Load(columns, sums, products);
    if constexpr (Normalises(kForm)) {
      float both[2 * kRowsAtOnce];
      for (int r = 0; r < kRowsAtOnce; ++r) {
        both[r] = sums[r];
        both[kRowsAtOnce + r] = products[r];
      }
      RowSum(both, place.lanes, memory[turn]);
      for (int r = 0; r < kRowsAtOnce; ++r) {
        sums[r] = both[r];
        products[r] = both[kRowsAtOnce + r];
      }
    }
    rows.Store(sums, products, columns);
    turn = 1 - turn;
  }
  WriteAddNormSums<kForm>(arguments, place, columns);
}

template <typename T, LinearUnit kUnit>
__global__ void __launch_bounds__(kThreads) Activations(const LinearUnitArguments arguments) {
  LinearUnitThread<T, kUnit>(arguments, ThreadNumber(), NumThreads());
}

template <typename T>
__global__ void __launch_bounds__(kThreads) Rotate(const RotationArguments arguments) {
  RotateThread<T>(arguments, ThreadNumber(), NumThreads());
}

// Adds up the sums of a block's threads. The block's matrix has columns [first, end) of the sums.
__device__ void WriteColumns(const ColumnPlace& place, const float (&of_thread)[kWidth], int64_t first, int64_t end,
                             const ColumnSums& sums, ColumnMemory& memory) {
  KeepColumns(place, of_thread, memory);
  __syncthreads();
  WriteColumn(memory, first + place.first_column, end, blockIdx.y, static_cast<int>(threadIdx.x), sums);
}

template <typename T, LinearUnit kUnit>
__global__ void __launch_bounds__(kThreadsOfColumns, kColumnBlocks)
    ActivationGradients(const LinearUnitGradientArguments arguments) {
  __shared__ ColumnMemory memory;
  const ColumnPlace place(blockIdx.x, blockIdx.y, gridDim.y, static_cast<int>(threadIdx.x));
  LinearUnitSums<kUnit> of_thread;
  LinearUnitGradientThread<T, kUnit>(arguments, place, of_thread);
  if (arguments.bias == nullptr) return;
#pragma unroll
  for (int half = 0; half < HalvesOf(kUnit); ++half) {
    if (half > 0) __syncthreads();
    WriteColumns(place, of_thread[half], half * arguments.columns, (half + 1) * arguments.columns, arguments.dbias,
                 memory);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreadsOfColumns, kColumnBlocks) Join(const JoinArguments arguments) {
  __shared__ ColumnMemory memory;
  const ColumnPlace place(blockIdx.x, blockIdx.y, gridDim.y, static_cast<int>(threadIdx.x));
  float of_thread[kWidth];
  JoinThread<T>(arguments, place, of_thread);
  WriteColumns(place, of_thread, 0, arguments.sums.columns, arguments.sums, memory);
}

__global__ void __launch_bounds__(kThreadsOfFinish) Finish(const ColumnSums sums) {
  __shared__ FinishMemory memory;
  AddColumnSlice(sums, blockIdx.x, static_cast<int>(threadIdx.x), memory);
  __syncthreads();
  FinishColumn(sums, blockIdx.x, static_cast<int>(threadIdx.x), memory);
}

void StartFinish(const ColumnSums& sums, cudaStream_t stream) {
  Finish<<<static_cast<unsigned>((sums.columns + kLanes - 1) / kLanes), kThreadsOfFinish, 0, stream>>>(sums);
}

// Returns how many blocks share the rows, if a processor is to have `threads` threads.
int64_t RowBlocks(int64_t rows, int64_t columns, int threads) {
  const int64_t of_processor = std::max(1, threads / ThreadsOfRows(columns));
  const int64_t rows_of_block = RowsOfBlock(columns) * kRowsAtOnce;
  return std::min((rows + rows_of_block - 1) / rows_of_block, NumProcessors() * of_processor);
}

dim3 ColumnGrid(int64_t columns, const ColumnSums& sums) {
  return {static_cast<unsigned>(NumTiles(columns)), static_cast<unsigned>(sums.parts)};
}

// Of a processor: with kGroupsAtOnce, enough loads are on their way. Turing's processors have threads for two.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kLogitsBlocks = 2;
#else
constexpr int kLogitsBlocks = 3;
#endif

// Returns the sum over a warp's lanes.
template <typename T>
__device__ ExpSum WarpSum(const ExpSum& of_thread) {
  constexpr unsigned kAll = 0xFFFFFFFFU;
  float largest = of_thread.largest;
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(kAll, largest, distance));
  }
  float sum = RelativeTo<T>(largest, of_thread);
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(kAll, sum, distance);
  return {largest, sum};
}

template <typename T>
__global__ void __launch_bounds__(kThreadsOfLogits, kLogitsBlocks) CrossEntropy(const CrossEntropyArguments arguments) {
  __shared__ ExpSum of_warps[kWarpsOfLogits];
  const int64_t row = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  if (arguments.answers[row] == arguments.ignored) {
    if (thread == 0) IgnoreRow(arguments, row);
    return;
  }
  const ExpSum of_warp = WarpSum<T>(SumLogits<T>(arguments, row, thread));
  if (thread % kLanes == 0) of_warps[thread / kLanes] = of_warp;
  __syncthreads();
  if (thread == 0) FinishRow<T>(arguments, row, of_warps);
}

template <typename T>
__global__ void __launch_bounds__(kThreadsOfLogits, kLogitsBlocks)
    CrossEntropyGradient(const CrossEntropyGradientArguments arguments) {
  CrossEntropyGradientThread<T>(arguments, blockIdx.x, static_cast<int>(threadIdx.x));
}

}  // namespace

int NumNormParts(int64_t rows, int64_t columns) {
  return static_cast<int>(RowBlocks(rows, columns, kBackwardThreads) * RowsOfBlock(columns));
}

int NumColumnParts(int64_t rows, int64_t columns) {
  const int64_t at_once = std::max<int64_t>(1, NumProcessors() * kColumnBlocks / NumTiles(columns));
  constexpr int64_t kRowsOfColumnBlock = kWarpsOfColumns * kRowsAtOnce;
  return static_cast<int>(std::min((rows + kRowsOfColumnBlock - 1) / kRowsOfColumnBlock, at_once));
}

int LaunchAddNorm(const AddNormArguments& arguments, Element element, void* stream) {
  const int threads = NormalisesFirst(arguments.form) ? kBackwardThreads : kForwardThreads;
  const auto blocks = static_cast<unsigned>(RowBlocks(arguments.rows, arguments.columns, threads));
  return ForElement(element, [&](auto type) {
    ForForm(arguments.form, [&](auto form) {
      AddNorm<decltype(type), form.value><<<blocks, ThreadsOfRows(arguments.columns), 0, StreamOf(stream)>>>(arguments);
    });
  });
}

int LaunchAddNormGradient(const AddNormGradientArguments& arguments, Element element, void* stream) {
  const auto blocks = static_cast<unsigned>(arguments.sums.parts / RowsOfBlock(arguments.columns));
  return ForElement(element, [&](auto type) {
    ForForm(arguments.form, [&](auto form) {
      AddNormGradient<decltype(type), form.value>
          <<<blocks, ThreadsOfRows(arguments.columns), 0, StreamOf(stream)>>>(arguments);
    });
    StartFinish(arguments.sums, StreamOf(stream));
  });
}

int LaunchLinearUnit(const LinearUnitArguments& arguments, Element element, void* stream) {
  const unsigned blocks = Blocks(arguments.rows, arguments.columns);
  return ForElement(element, [&](auto type) {
    ForUnit(arguments.unit, [&](auto unit) {
      Activations<decltype(type), unit.value><<<blocks, kThreads, 0, StreamOf(stream)>>>(arguments);
    });
  });
}

int LaunchLinearUnitGradient(const LinearUnitGradientArguments& arguments, Element element, void* stream) {
  return ForElement(element, [&](auto type) {
    ForUnit(arguments.unit, [&](auto unit) {
      ActivationGradients<decltype(type), unit.value>
          <<<ColumnGrid(arguments.columns, arguments.dbias), kThreadsOfColumns, 0, StreamOf(stream)>>>(arguments);
    });
    if (arguments.bias != nullptr) StartFinish(arguments.dbias, StreamOf(stream));
  });
}

int LaunchRotation(const RotationArguments& arguments, Element element, void* stream) {
  const unsigned blocks = Blocks(arguments.rows, kMostJoined * arguments.columns / 2);
  return ForElement(element,
                    [&](auto type) { Rotate<decltype(type)><<<blocks, kThreads, 0, StreamOf(stream)>>>(arguments); });
}

int LaunchJoin(const JoinArguments& arguments, Element element, void* stream) {
  return ForElement(element, [&](auto type) {
    Join<decltype(type)>
        <<<ColumnGrid(arguments.sums.columns, arguments.sums), kThreadsOfColumns, 0, StreamOf(stream)>>>(arguments);
    StartFinish(arguments.sums, StreamOf(stream));
  });
}

int LaunchCrossEntropy(const CrossEntropyArguments& arguments, Element element, void* stream) {
  return ForElement(element, [&](auto type) {
    CrossEntropy<decltype(type)>
        <<<static_cast<unsigned>(arguments.rows), kThreadsOfLogits, 0, StreamOf(stream)>>>(arguments);
  });
}

int LaunchCrossEntropyGradient(const CrossEntropyGradientArguments& arguments, Element element, void* stream) {
  return ForElement(element, [&](auto type) {
    CrossEntropyGradient<decltype(type)>
        <<<static_cast<unsigned>(arguments.rows), kThreadsOfLogits, 0, StreamOf(stream)>>>(arguments);
  });
}

}  // namespace dtrain::models::kernels
