// The kernels around the functions of the headers. It includes no torch header, so nvcc takes seconds, not minutes.
#include "models/kernels/norm.h"

#include "models/kernels/excitation.h"
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

template <typename T, typename Gradient>
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

template <typename T, typename Gradient>
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

// Five sums for each of eight channels need more registers than those of other kernels.
constexpr int kImageSumsBlocksPerProcessor = 2;
// Many times more blocks than run at once, so that the last ones leave few processors idle.
constexpr int64_t kBlocksWanted = 12;

// Steps 1 and 2 of excitation.h.
template <int kSums>
__device__ void AddUpImage(const Place& place, const ThreadSums<kSums>& of_thread, const ImageBlock& block,
                           int64_t images, int64_t channels, float factor, float* sums) {
  __shared__ ImageMemory<kSums> memory;
  KeepSums(place, of_thread, memory);
  __syncthreads();
  WriteImageSums(memory, block, images, channels, static_cast<int>(threadIdx.x), factor, sums);
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor) Squeeze(const SqueezeArguments arguments) {
  const ImageBlock block(blockIdx.x, arguments.channels, arguments.parts);
  const Place place(block.column, block.part, arguments.parts, static_cast<int>(threadIdx.x));
  AddUpImage(place, SqueezeThread<T>(arguments, block, place), block, arguments.images, arguments.channels,
             1.0F / static_cast<float>(arguments.pixels), arguments.means);
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kImageSumsBlocksPerProcessor)
    ImageSums(const ImageSumsArguments arguments) {
  const GradientArguments& of = arguments.of;
  const ImageBlock block(blockIdx.x, of.channels, arguments.parts);
  const Place place(block.column, block.part, arguments.parts, static_cast<int>(threadIdx.x));
  AddUpImage(place, ImageSumsThread<T>(arguments, block, place), block, ImagesOf(of), of.channels, /*factor=*/1.0F,
             arguments.sums);
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor) AddImages(const AddImagesArguments arguments) {
  __shared__ BlockMemory memory;
  const Place place(blockIdx.x, blockIdx.y, gridDim.y, static_cast<int>(threadIdx.x));
  AddUp(place, AddImagesThread<T>(arguments, place), arguments.sums, arguments.of.channels, memory,
        [&](int64_t channel, int /*of_block*/, double du, double du_centred) {
          FinishSums(arguments, channel, du, du_centred);
        });
}

unsigned ImageGrid(int64_t images, int64_t channels, int parts) {
  return static_cast<unsigned>(NumImageBlocks(images, channels, parts));
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
  const unsigned blocks = Blocks(arguments.rows, arguments.channels);
  return ForElement(element, [&](auto type) {
    ForForward(arguments, [&](auto activation, auto normalises_z) {
      Forward<decltype(type), activation.value, normalises_z.value>
          <<<blocks, kThreads, 0, StreamOf(stream)>>>(arguments);
    });
  });
}

int LaunchPool(const PoolArguments& arguments, Element element, void* stream) {
  const int64_t rows = arguments.images * Pooled(arguments.pool.height) * Pooled(arguments.pool.width);
  return ForElement(element, [&](auto type) {
    Pool<decltype(type)><<<Blocks(rows, arguments.channels), kThreads, 0, StreamOf(stream)>>>(arguments);
  });
}

int LaunchSum(const SumArguments& arguments, Element element, void* stream) {
  const dim3 grid = SumGrid(arguments.of.channels, arguments.sums.parts);
  return ForElement(element, [&](auto type) {
    ForSum<decltype(type)>(arguments.of, [&](auto gradient) {
      Sum<decltype(type), typename decltype(gradient)::Of><<<grid, kThreads, 0, StreamOf(stream)>>>(arguments);
    });
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
  const GradientArguments& of = arguments.of;
  return ForElement(element, [&](auto type) {
    using T = decltype(type);
    if (of.activation == Activation::kReluPool) {
      const int64_t squares = of.rows / (kPoolStride * kPoolStride);  // or some more
      PoolBackward<T><<<Blocks(squares, of.channels), kThreads, 0, StreamOf(stream)>>>(arguments);
      return;
    }
    ForBackward<T>(of, [&](auto gradient) {
      Backward<T, typename decltype(gradient)::Of>
          <<<Blocks(of.rows, of.channels), kThreads, 0, StreamOf(stream)>>>(arguments);
    });
  });
}

int NumImageParts(int64_t images, int64_t pixels, int64_t channels) {
  const int64_t blocks = NumImageBlocks(images, channels, /*parts=*/1), wanted = kBlocksWanted * NumProcessors();
  const int64_t most = (pixels + kRowsOfBlock * kRowsPerThread - 1) / (kRowsOfBlock * kRowsPerThread);
  return static_cast<int>(std::min((wanted + blocks - 1) / blocks, most));
}

int LaunchSqueeze(const SqueezeArguments& arguments, Element element, void* stream) {
  return ForElement(element, [&](auto type) {
    Squeeze<decltype(type)>
        <<<ImageGrid(arguments.images, arguments.channels, arguments.parts), kThreads, 0, StreamOf(stream)>>>(
            arguments);
  });
}

int LaunchImageSums(const ImageSumsArguments& arguments, Element element, void* stream) {
  const GradientArguments& of = arguments.of;
  return ForElement(element, [&](auto type) {
    ImageSums<decltype(type)>
        <<<ImageGrid(ImagesOf(of), of.channels, arguments.parts), kThreads, 0, StreamOf(stream)>>>(arguments);
  });
}

int LaunchAddImages(const AddImagesArguments& arguments, Element element, void* stream) {
  return ForElement(element, [&](auto type) {
    AddImages<decltype(type)>
        <<<SumGrid(arguments.of.channels, arguments.sums.parts), kThreads, 0, StreamOf(stream)>>>(arguments);
  });
}

}  // namespace dtrain::models::kernels
