// The kernels around the functions of depthwise.h.
#include "models/kernels/depthwise.h"

#include "models/kernels/launch.cuh"

namespace dtrain::models::kernels {
namespace {

constexpr int kStripThreads = 128;
// Rows at the edges of strips are loaded twice, so strips are high, as long as there are this many threads for each of
// the GPU's processors.
constexpr int64_t kThreadsPerProcessor = 900, kFewestRows = 8;
// Blocks that add up taps leave sums in memory, so there are not many more than run at once.
constexpr int64_t kTapsBlocksPerProcessor = 8;

// Each processor of the GPU has registers for this many blocks.
template <int kKernel>
constexpr int kBlocksAtOnce = kKernel == 3 ? 4 : 3;
template <int kKernel>
constexpr int kTapsBlocksAtOnce = kKernel == 3 ? 3 : 2;

template <typename T, int kKernel, int kStride>
__global__ void __launch_bounds__(kStripThreads, kBlocksAtOnce<kKernel>) Convolve(const DepthwiseArguments arguments) {
  ConvolveThread<T, kKernel, kStride>(arguments, blockIdx.x * kStripThreads + threadIdx.x);
}

template <typename T, int kKernel>
__global__ void __launch_bounds__(kStripThreads, kBlocksAtOnce<kKernel>) Spread(const DepthwiseArguments arguments) {
  SpreadThread<T, kKernel>(arguments, blockIdx.x * kStripThreads + threadIdx.x);
}

template <typename T, int kKernel, int kStride>
__global__ void __launch_bounds__(kTapsThreads, kTapsBlocksAtOnce<kKernel>)
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
  const int64_t wanted = NumProcessors() * kThreadsPerProcessor;
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

template <typename T, int kKernel>
void StartDepthwise(const DepthwiseArguments& arguments, cudaStream_t stream) {
  if (arguments.shape.stride == 1) return StartConvolve<T, kKernel, 1>(arguments, stream);
  return arguments.backward ? StartSpread<T, kKernel>(arguments, stream)
                            : StartConvolve<T, kKernel, 2>(arguments, stream);
}

template <typename T, int kKernel>
void StartTaps(DepthwiseTapsArguments arguments, cudaStream_t stream) {
  arguments.rows_per_thread = TapsRows(arguments.shape);
  const dim3 grid(static_cast<unsigned>(TapsColumns(arguments.shape.channels)), static_cast<unsigned>(arguments.parts));
  if (arguments.shape.stride == 1) {
    GradientOfTaps<T, kKernel, 1><<<grid, kTapsThreads, 0, stream>>>(arguments);
  } else {
    GradientOfTaps<T, kKernel, 2><<<grid, kTapsThreads, 0, stream>>>(arguments);
  }
}

}  // namespace

int NumTapsParts(const DepthwiseShape& shape) {
  const int64_t strips =
      NumStrips(shape.images, shape.out_height, shape.out_width, TapsRows(shape), Meeting<3, 1>::kStripColumns);
  const int64_t most = (strips + kStripsOfBlock - 1) / kStripsOfBlock;
  const int64_t blocks = NumProcessors() * kTapsBlocksPerProcessor;
  const int64_t turns = (most * TapsColumns(shape.channels) + blocks - 1) / blocks;  // of each block
  return static_cast<int>((most + turns - 1) / turns);
}

int LaunchDepthwise(const DepthwiseArguments& arguments, Element element, void* stream) {
  return ForHalf(element, [&](auto type) {
    using T = decltype(type);
    const auto on = StreamOf(stream);
    return arguments.shape.kernel == 3 ? StartDepthwise<T, 3>(arguments, on) : StartDepthwise<T, 5>(arguments, on);
  });
}

int LaunchDepthwiseTaps(const DepthwiseTapsArguments& arguments, Element element, void* stream) {
  return ForHalf(element, [&](auto type) {
    using T = decltype(type);
    const auto on = StreamOf(stream);
    return arguments.shape.kernel == 3 ? StartTaps<T, 3>(arguments, on) : StartTaps<T, 5>(arguments, on);
  });
}

}  // namespace dtrain::models::kernels
