// The kernels around the functions of the headers. It includes no torch header, so nvcc takes seconds, not minutes.
#include "models/kernels/norm.h"

#include "models/kernels/launch.cuh"
#include "models/kernels/norm_pair.h"
#include "models/kernels/norm_pool.h"
#include "models/kernels/norm_statistics.h"

namespace dtrain::models::kernels {
namespace {

template <typename T, Activation kActivation, bool kNormalisesZ>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor) Forward(const ForwardArguments arguments) {
  ForwardThread<T, kActivation, kNormalisesZ>(arguments, ThreadNumber(), NumThreads());
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor) Pool(const PoolArguments arguments) {
  PoolThread<T>(arguments, ThreadNumber(), NumThreads());
}

template <typename T, template <typename> typename Gradient>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor) Backward(const BackwardArguments arguments) {
  BackwardThread<T, Gradient>(arguments, ThreadNumber(), NumThreads());
}

// Four pixels need more registers than the other kernels.
template <typename T>
__global__ void __launch_bounds__(kThreads, 2) PoolBackward(const BackwardArguments arguments) {
  PoolBackwardThread<T>(arguments, ThreadNumber(), NumThreads());
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor) Statistics(const StatisticsArguments arguments) {
  __shared__ BlockMemory memory;
  const Place place(blockIdx.x, blockIdx.y, gridDim.y, static_cast<int>(threadIdx.x));
  SampleRow<T>(arguments, place, memory);
  __syncthreads();
  FindShift(static_cast<int>(threadIdx.x), memory);
  __syncthreads();
  const ChannelSums of_thread = StatisticsThread<T>(arguments, place, memory);
  AddUp(place, of_thread, arguments.sums, arguments.channels, memory,
        [&](int64_t channel, int of_block, double shifted, double squared) {
          FinishStatistics(arguments, channel, memory.shift[of_block], shifted, squared);
        });
}

template <typename T, template <typename> typename Gradient>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor) Sum(const SumArguments arguments) {
  __shared__ BlockMemory memory;
  const Place place(blockIdx.x, blockIdx.y, gridDim.y, static_cast<int>(threadIdx.x));
  const ChannelSums of_thread = SumThread<T, Gradient>(arguments, place);
  AddUp(place, of_thread, arguments.sums, arguments.of.channels, memory,
        [&](int64_t channel, int /*of_block*/, double dz, double dz_centred) {
          FinishSums(arguments, channel, dz, dz_centred);
        });
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor) PairSum(const PairSumArguments arguments) {
  __shared__ BlockMemory memory;
  const Place place(blockIdx.x, blockIdx.y, gridDim.y, static_cast<int>(threadIdx.x));
  const PairSums of_thread = PairSumThread<T>(arguments, place);
  const SumArguments& of_x = arguments.of_x;
  AddUp(place, of_thread.of_x, of_x.sums, of_x.of.channels, memory,
        [&](int64_t channel, int /*of_block*/, double du, double du_centred) {
          FinishSums(of_x, channel, du, du_centred);
        });
  __syncthreads();
  AddUp(place, of_thread.of_z, arguments.z_sums, of_x.of.channels, memory,
        [&](int64_t channel, int /*of_block*/, double du, double du_centred) {
          FinishZSums(arguments, channel, du, du_centred);
        });
}

// The constants of two normalisations need more registers than the other kernels.
template <typename T>
__global__ void __launch_bounds__(kThreads, 2) PairBackward(const PairBackwardArguments arguments) {
  PairBackwardThread<T>(arguments, ThreadNumber(), NumThreads());
}

template <typename T, Activation kActivation, bool kNormalisesZ = false>
void StartForward(const ForwardArguments& arguments, cudaStream_t stream) {
  Forward<T, kActivation, kNormalisesZ><<<Blocks(arguments.rows, arguments.channels), kThreads, 0, stream>>>(arguments);
}

template <typename T, template <typename> typename Gradient>
void StartSum(const SumArguments& arguments, cudaStream_t stream) {
  Sum<T, Gradient><<<SumGrid(arguments.of.channels, arguments.sums.parts), kThreads, 0, stream>>>(arguments);
}

template <typename T, template <typename> typename Gradient>
void StartBackward(const BackwardArguments& arguments, cudaStream_t stream) {
  Backward<T, Gradient><<<Blocks(arguments.of.rows, arguments.of.channels), kThreads, 0, stream>>>(arguments);
}

template <typename T>
void StartPoolBackward(const BackwardArguments& arguments, cudaStream_t stream) {
  const int64_t squares = arguments.of.rows / (kPoolStride * kPoolStride);  // or some more
  PoolBackward<T><<<Blocks(squares, arguments.of.channels), kThreads, 0, stream>>>(arguments);
}

}  // namespace

int NumParts(int64_t rows, int64_t channels) {
  const int64_t of_column = std::max<int64_t>(1, NumProcessors() * kBlocksPerProcessor / NumColumns(channels));
  const int64_t wanted = (rows + kRowsOfBlock * kRowsPerThread - 1) / (kRowsOfBlock * kRowsPerThread);
  return static_cast<int>(std::min(std::max<int64_t>(wanted, 1), of_column));
}

int LaunchStatistics(const StatisticsArguments& arguments, Element element, void* stream) {
  return ForElement(element, [&](auto type) {
    Statistics<decltype(type)>
        <<<SumGrid(arguments.channels, arguments.sums.parts), kThreads, 0, StreamOf(stream)>>>(arguments);
  });
}

int LaunchForward(const ForwardArguments& arguments, Element element, void* stream) {
  return ForElement(element, [&](auto type) {
    using T = decltype(type);
    if (arguments.activation == Activation::kSilu) {
      StartForward<T, Activation::kSilu>(arguments, StreamOf(stream));
    } else if (arguments.activation == Activation::kNone) {
      StartForward<T, Activation::kNone>(arguments, StreamOf(stream));
    } else if (arguments.normalises_z) {
      StartForward<T, Activation::kRelu, /*kNormalisesZ=*/true>(arguments, StreamOf(stream));
    } else {
      StartForward<T, Activation::kRelu>(arguments, StreamOf(stream));
    }
  });
}

int LaunchPool(const PoolArguments& arguments, Element element, void* stream) {
  const int64_t rows = arguments.images * Pooled(arguments.pool.height) * Pooled(arguments.pool.width);
  return ForElement(element, [&](auto type) {
    Pool<decltype(type)><<<Blocks(rows, arguments.channels), kThreads, 0, StreamOf(stream)>>>(arguments);
  });
}

int LaunchSum(const SumArguments& arguments, Element element, void* stream) {
  return ForElement(element, [&](auto type) {
    using T = decltype(type);
    switch (arguments.of.activation) {
      case Activation::kNone:
        if (arguments.of.scale.factors != nullptr) return StartSum<T, ScaledGradient>(arguments, StreamOf(stream));
        return StartSum<T, PlainGradient>(arguments, StreamOf(stream));
      case Activation::kRelu:
        if (arguments.of.aside != nullptr) return StartSum<T, MaskedGradient>(arguments, StreamOf(stream));
        return StartSum<T, ReluGradient>(arguments, StreamOf(stream));
      case Activation::kSilu:
        return StartSum<T, SiluGradient>(arguments, StreamOf(stream));
      case Activation::kReluPool:
        return StartSum<T, WindowGradient>(arguments, StreamOf(stream));
    }
  });
}

int LaunchPairSum(const PairSumArguments& arguments, Element element, void* stream) {
  const SumArguments& of_x = arguments.of_x;
  return ForElement(element, [&](auto type) {
    PairSum<decltype(type)><<<SumGrid(of_x.of.channels, of_x.sums.parts), kThreads, 0, StreamOf(stream)>>>(arguments);
  });
}

int LaunchPairBackward(const PairBackwardArguments& arguments, Element element, void* stream) {
  const GradientArguments& of = arguments.of_x.of;
  return ForElement(element, [&](auto type) {
    PairBackward<decltype(type)><<<Blocks(of.rows, of.channels), kThreads, 0, StreamOf(stream)>>>(arguments);
  });
}

int LaunchBackward(const BackwardArguments& arguments, Element element, void* stream) {
  return ForElement(element, [&](auto type) {
    using T = decltype(type);
    switch (arguments.of.activation) {
      case Activation::kNone:
        if (arguments.of.scale.factors != nullptr) return StartBackward<T, ScaledGradient>(arguments, StreamOf(stream));
        return StartBackward<T, PlainGradient>(arguments, StreamOf(stream));
      case Activation::kRelu:
        return StartBackward<T, ReluGradient>(arguments, StreamOf(stream));
      case Activation::kSilu:
        if (arguments.of.scale.factors != nullptr)
          return StartBackward<T, ExcitedGradient>(arguments, StreamOf(stream));
        return StartBackward<T, SiluGradient>(arguments, StreamOf(stream));
      case Activation::kReluPool:
        return StartPoolBackward<T>(arguments, StreamOf(stream));
    }
  });
}

}  // namespace dtrain::models::kernels
