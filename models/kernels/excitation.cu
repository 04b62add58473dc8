// The kernels around the functions of excitation.h.
#include "models/kernels/excitation.h"

#include "models/kernels/launch.cuh"

namespace dtrain::models::kernels {
namespace {

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
