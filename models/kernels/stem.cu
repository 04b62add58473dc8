// Tensor cores are used by whole warps, so there is no function of one thread of the gradient for tests on the CPU: a
// GPU's test compares the kernel with ATen.
#include "models/kernels/stem.h"

#include <mma.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#include <cuda_pipeline.h>
#pragma GCC diagnostic pop

#include "models/kernels/launch.cuh"

namespace dtrain::models::kernels {
namespace {

namespace wmma = nvcuda::wmma;

template <typename T>
__global__ void __launch_bounds__(kThreads) Rearrange(const SpaceToDepthArguments arguments) {
  SpaceToDepthThread<T>(arguments, ThreadNumber());
}

constexpr int kTile = 16;        // of tensor cores, in all directions
constexpr int kPixels = 112;     // pixels that a block loads at once: a row of an image of 224
static_assert(kThreads == 256);  // eight warps, each with two taps
constexpr int kStemBlocksPerProcessor = 2;
[[maybe_unused]] constexpr int kTapsOfWarp = 2, kTiles = kStemChannels / kTile;
constexpr int kChunk = 8;                       // elements of a half type in 16 bytes
constexpr int kPitch = kStemChannels + kChunk;  // neighbouring rows begin in other banks of shared memory
constexpr int kColumns = kPixels + kStemTaps - 1;
constexpr int kStages = 2;

// What is loaded for the same pixels.
template <typename T>
struct alignas(32) Stage {
  T dy[kPixels * kPitch];
  T squares[kStemTaps * kColumns * kDepthChannels];
};

// Begins to copy 16 bytes; writes zeros if `inside` is false.
template <typename T>
__device__ void Fetch(T* to, const T* from, bool inside) {
  if (inside) {
    __pipeline_memcpy_async(to, from, sizeof(uint4));
  } else {
    *reinterpret_cast<uint4*>(to) = uint4{0, 0, 0, 0};
  }
}

// The pixels of a row that are loaded at once are a piece. A block works on consecutive pieces.
struct Pieces {
  int64_t first, last;
  int per_row;

  __device__ explicit Pieces(const StemGradientArguments& arguments)
      : per_row((arguments.width + kPixels - 1) / kPixels) {
    const int64_t all = arguments.images * arguments.height * per_row;
    first = all * blockIdx.x / gridDim.x;
    last = all * (blockIdx.x + 1) / gridDim.x;
  }
};

template <typename T>
__device__ void FetchPiece(const StemGradientArguments& arguments, int64_t piece, int per_row, Stage<T>& stage) {
  const int64_t row = piece / per_row;
  const int begin = static_cast<int>(piece % per_row) * kPixels;
  constexpr int kChunksOfPixel = kStemChannels / kChunk, kChunksOfSquare = kDepthChannels / kChunk;
  const T* const dy = static_cast<const T*>(arguments.dy) + (row * arguments.width + begin) * kStemChannels;
  for (int chunk = threadIdx.x; chunk < kPixels * kChunksOfPixel; chunk += kThreads) {
    const int pixel = chunk / kChunksOfPixel, part = chunk % kChunksOfPixel;
    Fetch(stage.dy + pixel * kPitch + part * kChunk, dy + chunk * kChunk, begin + pixel < arguments.width);
  }
  const int columns = arguments.width + kStemTaps - 1, rows = arguments.height + kStemTaps - 1;
  const int64_t image = row / arguments.height, first_row = image * rows + row % arguments.height;
  const T* const squares = static_cast<const T*>(arguments.squares) + (first_row * columns + begin) * kDepthChannels;
  constexpr int kChunksOfRow = kColumns * kChunksOfSquare;
  for (int chunk = threadIdx.x; chunk < kStemTaps * kChunksOfRow; chunk += kThreads) {
    const int line = chunk / kChunksOfRow, of_row = chunk % kChunksOfRow;
    Fetch(stage.squares + chunk * kChunk,
          squares + static_cast<int64_t>(line) * columns * kDepthChannels + of_row * kChunk,
          begin + of_row / kChunksOfSquare < columns);
  }
  __pipeline_commit();
}

// Each warp adds up two neighbouring taps for all channels: dweight(o, tap, c) = Σ dy(pixel, o) · squares(pixel + tap,
// c).
template <typename T>
__global__ void __launch_bounds__(kThreads, kStemBlocksPerProcessor)
    PartialGradient(const StemGradientArguments arguments) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(32) unsigned char memory[];
  Stage<T>* const stages = reinterpret_cast<Stage<T>*>(memory);
  const int first_tap = static_cast<int>(threadIdx.x) / 32 * kTapsOfWarp;
  const int line = first_tap / kStemTaps, column = first_tap % kStemTaps;
  wmma::fragment<wmma::accumulator, kTile, kTile, kTile, float> sums[kTiles][kTapsOfWarp];
  for (auto& of_tile : sums) {
    for (auto& sum : of_tile) wmma::fill_fragment(sum, 0.0F);
  }
  const Pieces pieces(arguments);
  if (pieces.first < pieces.last) FetchPiece(arguments, pieces.first, pieces.per_row, stages[0]);
  for (int64_t piece = pieces.first; piece < pieces.last; ++piece) {
    const Stage<T>& stage = stages[(piece - pieces.first) % kStages];
    if (piece + 1 < pieces.last) {
      FetchPiece(arguments, piece + 1, pieces.per_row, stages[(piece + 1 - pieces.first) % kStages]);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
    for (int pixel = 0; pixel < kPixels; pixel += kTile) {
      wmma::fragment<wmma::matrix_b, kTile, kTile, kTile, T, wmma::row_major> of_tap[kTapsOfWarp];
      for (int tap = 0; tap < kTapsOfWarp; ++tap) {
        wmma::load_matrix_sync(of_tap[tap], stage.squares + (line * kColumns + pixel + column + tap) * kDepthChannels,
                               kDepthChannels);
      }
      for (int tile = 0; tile < kTiles; ++tile) {
        wmma::fragment<wmma::matrix_a, kTile, kTile, kTile, T, wmma::col_major> dy;
        wmma::load_matrix_sync(dy, stage.dy + pixel * kPitch + tile * kTile, kPitch);
        for (int tap = 0; tap < kTapsOfWarp; ++tap) wmma::mma_sync(sums[tile][tap], dy, of_tap[tap], sums[tile][tap]);
      }
    }
    __syncthreads();  // before the stage is overwritten
  }
  constexpr int kOfChannel = kStemWeights / kStemChannels;
  float* const partial = arguments.partial + static_cast<int64_t>(blockIdx.x) * kStemWeights;
  for (int tile = 0; tile < kTiles; ++tile) {
    for (int tap = 0; tap < kTapsOfWarp; ++tap) {
      wmma::store_matrix_sync(partial + tile * kTile * kOfChannel + (first_tap + tap) * kDepthChannels, sums[tile][tap],
                              kOfChannel, wmma::mem_row_major);
    }
  }
#endif
}

constexpr int kSlices = 4, kWeightsOfBlock = kThreads / kSlices;

template <typename T>
__global__ void __launch_bounds__(kThreads) AddParts(const StemGradientArguments arguments) {
  __shared__ float sums[kSlices][kWeightsOfBlock];
  const int of_block = static_cast<int>(threadIdx.x) % kWeightsOfBlock;
  const int slice = static_cast<int>(threadIdx.x) / kWeightsOfBlock;
  const int weight = static_cast<int>(blockIdx.x) * kWeightsOfBlock + of_block;
  float sum = 0;
#pragma unroll 8
  for (int part = slice; part < arguments.parts; part += kSlices) {
    sum += arguments.partial[static_cast<int64_t>(part) * kStemWeights + weight];
  }
  sums[slice][of_block] = sum;
  __syncthreads();
  if (slice > 0) return;
  for (int other = 1; other < kSlices; ++other) sum += sums[other][of_block];
  static_cast<T*>(arguments.dweight)[weight] = static_cast<T>(sum);
}

}  // namespace

int LaunchSpaceToDepth(const SpaceToDepthArguments& arguments, Element element, void* stream) {
  const auto blocks = static_cast<unsigned>((arguments.Threads() + kThreads - 1) / kThreads);
  return ForHalf(element,
                 [&](auto type) { Rearrange<decltype(type)><<<blocks, kThreads, 0, StreamOf(stream)>>>(arguments); });
}

int StemGradientParts() {
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaFuncAttributes code{};  // a new GPU may run what was compiled for an older one, for which the kernel is empty
  cudaFuncGetAttributes(&code, PartialGradient<__half>);
  return major >= 8 && code.ptxVersion >= 80 ? NumProcessors() * kStemBlocksPerProcessor : 0;
}

int LaunchStemGradient(const StemGradientArguments& arguments, Element element, void* stream) {
  int error = cudaSuccess;
  const int launched = ForHalf(element, [&](auto type) {
    using T = decltype(type);
    constexpr int kBytes = kStages * sizeof(Stage<T>);
    error = cudaFuncSetAttribute(PartialGradient<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    if (error != cudaSuccess) return;
    PartialGradient<T><<<static_cast<unsigned>(arguments.parts), kThreads, kBytes, StreamOf(stream)>>>(arguments);
    AddParts<T><<<kStemWeights / kWeightsOfBlock, kThreads, 0, StreamOf(stream)>>>(arguments);
  });
  return error != cudaSuccess ? error : launched;
}

}  // namespace dtrain::models::kernels
