// The kernels around the functions of depthwise.h.
#include "models/kernels/depthwise.h"

#include <type_traits>

#include "models/kernels/launch.cuh"

namespace dtrain::models::kernels {
namespace {

constexpr int kStripThreads = 128;
// Rows at the edges of strips are loaded twice, so strips are high, as long as there are this many threads for each of
// the GPU's processors. Of 7×7, whose threads compute there twice as well, as many as run at once.
constexpr int64_t ThreadsPerProcessor(int kernel) { return kernel == 7 ? 256 : 900; }
constexpr int64_t kFewestRows = 8;
// Blocks that add up taps leave sums in memory, so there are not many more than run at once.
constexpr int64_t TapsBlocksPerProcessor(int kernel) { return kernel == 7 ? 4 : 8; }

// Each processor of the GPU has registers for this many blocks.
template <int kKernel>
constexpr int kBlocksAtOnce = kKernel == 3   ? 4
                              : kKernel == 5 ? 3
                                             : 2;
template <int kKernel>
constexpr int kTapsBlocksAtOnce = kKernel == 3   ? 3
                                  : kKernel == 5 ? 2
                                                 : 4;

template <typename T, int kKernel, int kStride>
__global__ void __launch_bounds__(kStripThreads, kBlocksAtOnce<kKernel>) Convolve(const DepthwiseArguments arguments) {
  ConvolveThread<T, kKernel, kStride>(arguments, blockIdx.x * kStripThreads + threadIdx.x);
}

template <typename T, int kKernel>
__global__ void __launch_bounds__(kStripThreads, kBlocksAtOnce<kKernel>) Spread(const DepthwiseArguments arguments) {
  SpreadThread<T, kKernel>(arguments, blockIdx.x * kStripThreads + threadIdx.x);
}

template <typename T, int kKernel, int kStride>
__global__ void __launch_bounds__(TapsThreads(kKernel), kTapsBlocksAtOnce<kKernel>)
    GradientOfTaps(const DepthwiseTapsArguments arguments) {
  __shared__ TapsMemory<kKernel> memory;
  const int thread = static_cast<int>(threadIdx.x), column = static_cast<int>(blockIdx.x),
            part = static_cast<int>(blockIdx.y);
  KeepTapsSums(TapsThread<T, kKernel, kStride>(arguments, column, part, thread), thread, memory);
  __syncthreads();
  WriteTapsSums(arguments, column, part, thread, memory);
}

// Returns rows_per_thread for a result of this size.
int RowsPerThread(const DepthwiseShape& shape, int height, int width, int columns) {
  const int64_t wanted = NumProcessors() * ThreadsPerProcessor(shape.kernel);
  for (int strips = 1;; strips *= 2) {
    const int rows = ((height + strips - 1) / strips + 1) / 2 * 2;  // even
    const int64_t threads = NumStrips(shape.images, height, width, rows, columns) * (shape.channels / kPair);
    if (threads >= wanted || rows <= kFewestRows) return rows;
  }
}

int TapsStripColumns(const DepthwiseShape& shape) {
  return shape.stride == 1 ? Meeting<3, 1>::kStripColumns : Meeting<3, 2>::kStripColumns;
}

int TapsRows(const DepthwiseShape& shape) {
  return RowsPerThread(shape, shape.out_height, shape.out_width, TapsStripColumns(shape));
}

unsigned NumBlocks(const DepthwiseShape& shape, int height, int width, int rows, int columns) {
  const int64_t threads = NumStrips(shape.images, height, width, rows, columns) * (shape.channels / kPair);
  return static_cast<unsigned>((threads + kStripThreads - 1) / kStripThreads);
}

template <typename T, int kKernel, int kStride>
void StartConvolve(DepthwiseArguments arguments, cudaStream_t stream) {
  const DepthwiseShape& s = arguments.shape;
  constexpr int kColumns = Meeting<kKernel, kStride>::kStripColumns;
  arguments.rows_per_thread = RowsPerThread(s, s.out_height, s.out_width, kColumns);
  const unsigned blocks = NumBlocks(s, s.out_height, s.out_width, arguments.rows_per_thread, kColumns);
  Convolve<T, kKernel, kStride><<<blocks, kStripThreads, 0, stream>>>(arguments);
}

template <typename T, int kKernel>
void StartSpread(DepthwiseArguments arguments, cudaStream_t stream) {
  const DepthwiseShape& s = arguments.shape;
  arguments.rows_per_thread = RowsPerThread(s, s.height, s.width, kSpreadColumns);
  const unsigned blocks = NumBlocks(s, s.height, s.width, arguments.rows_per_thread, kSpreadColumns);
  Spread<T, kKernel><<<blocks, kStripThreads, 0, stream>>>(arguments);
}

// Calls `with` with the type, the filter's size and the stride, as types.
template <typename With>
int ForFilter(const DepthwiseShape& shape, Element element, const With& with) {
  const auto for_stride = [&](auto type, auto kernel) {
    if (shape.stride == 1) return with(type, kernel, std::integral_constant<int, 1>{});
    if constexpr (kernel < 7) with(type, kernel, std::integral_constant<int, 2>{});
  };
  return ForHalf(element, [&](auto type) {
    switch (shape.kernel) {
      case 3:
        return for_stride(type, std::integral_constant<int, 3>{});
      case 5:
        return for_stride(type, std::integral_constant<int, 5>{});
      default:
        return for_stride(type, std::integral_constant<int, 7>{});
    }
  });
}

}  // namespace

int NumTapsParts(const DepthwiseShape& shape) {
  const int64_t strips =
      NumStrips(shape.images, shape.out_height, shape.out_width, TapsRows(shape), Meeting<3, 1>::kStripColumns);
  const int64_t most = (strips + StripsOfBlock(shape.kernel) - 1) / StripsOfBlock(shape.kernel);
  const int64_t blocks = NumProcessors() * TapsBlocksPerProcessor(shape.kernel);
  const int64_t turns = (most * TapsColumns(shape.channels) + blocks - 1) / blocks;  // of each block
  return static_cast<int>((most + turns - 1) / turns);
}

int LaunchDepthwise(const DepthwiseArguments& arguments, Element element, void* stream) {
  cudaStream_t on = StreamOf(stream);
  return ForFilter(arguments.shape, element, [&](auto type, auto kernel, auto stride) {
    using T = decltype(type);
    if constexpr (stride == 2) {
      if (arguments.backward) return StartSpread<T, kernel>(arguments, on);
    }
    StartConvolve<T, kernel, stride>(arguments, on);
  });
}

int LaunchDepthwiseTaps(const DepthwiseTapsArguments& given, Element element, void* stream) {
  DepthwiseTapsArguments arguments = given;
  arguments.rows_per_thread = TapsRows(arguments.shape);
  const dim3 grid(static_cast<unsigned>(TapsColumns(arguments.shape.channels)), static_cast<unsigned>(arguments.parts));
  cudaStream_t on = StreamOf(stream);
  return ForFilter(arguments.shape, element, [&](auto type, auto kernel, auto stride) {
    GradientOfTaps<decltype(type), kernel, stride><<<grid, TapsThreads(kernel), 0, on>>>(arguments);
  });
}

}  // namespace dtrain::models::kernels
