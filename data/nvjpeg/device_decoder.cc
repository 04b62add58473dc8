#include "data/nvjpeg/device_decoder.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>

#include <any>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "data/image/crop.h"
#include "data/kernels/resize_crops.h"
#include "data/nvjpeg/crop_decoder.h"
#include "data/nvjpeg/memory.h"

namespace dtrain::data::nvjpeg {
namespace {

constexpr int64_t kMostScratchBytes = int64_t{1} << 29;

const ImageGeometry& GeometryOf(const DeferredRow& row) { return std::any_cast<const ImageGeometry&>(row.work); }

class NvjpegDecoder : public DeviceImageDecoder {
 public:
  NvjpegDecoder(at::Device device, Interpolation interpolation, Library library)
      : device_(device),
        cubic_(interpolation == Interpolation::kBicubic),
        library_(library),
        decoder_(library_, {&device_allocator_, &pinned_allocator_}) {}

  std::vector<size_t> Decode(std::span<const DeferredRow> rows, const at::Tensor& images) override {
    std::vector<CropBox> boxes;
    for (const DeferredRow& row : rows) boxes.push_back(GeometryOf(row).crop);
    std::vector<bool> done;
    while (done.size() < rows.size()) {
      const ScratchLayout layout = LayOutCrops(std::span(boxes).subspan(done.size()), kMostScratchBytes);
      const std::vector<bool> these = DecodeSome(rows.subspan(done.size(), layout.offsets.size()), layout, images);
      done.insert(done.end(), these.begin(), these.end());
    }
    std::vector<size_t> failed;
    for (size_t i = 0; i < done.size(); ++i) {
      if (!done[i]) failed.push_back(i);
    }
    return failed;
  }

 private:
  std::vector<bool> DecodeSome(std::span<const DeferredRow> rows, const ScratchLayout& layout,
                               const at::Tensor& images) {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device_.index()).stream();
    const at::Tensor scratch = at::empty({layout.bytes}, at::TensorOptions(at::kByte).device(device_));
    auto* begin = scratch.mutable_data_ptr<uint8_t>();
    C10_CUDA_CHECK(cudaMemsetAsync(begin, kernels::kUntouched, static_cast<size_t>(layout.bytes), stream));

    std::vector<EncodedCrop> encoded;
    std::vector<kernels::Crop> crops;
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto& [box, flip] = GeometryOf(rows[i]);
      uint8_t* pixels = begin + layout.offsets[i];
      encoded.push_back({rows[i].bytes, box, pixels});
      crops.push_back(
          {pixels, box.width, box.height, flip ? 1 : 0, images.select(0, rows[i].row).mutable_data_ptr<uint8_t>()});
    }
    std::vector<bool> done = decoder_.Decode(encoded, stream);
    const std::vector<bool> untouched = Resize(crops, static_cast<int32_t>(images.size(1)), stream);
    for (size_t i = 0; i < done.size(); ++i) done[i] = done[i] && !untouched[i];
    return done;
  }

  // Resizes all crops, also those that were not decoded, because their rows are written again later. Returns for each
  // crop whether its memory was never written to.
  std::vector<bool> Resize(std::vector<kernels::Crop>& crops, int32_t side, cudaStream_t stream) const {
    const auto count = static_cast<int64_t>(crops.size());
    const auto bytes = static_cast<int64_t>(sizeof(kernels::Crop)) * count;
    const at::Tensor table = at::from_blob(crops.data(), {bytes}, at::kByte).to(device_);
    const auto* on_device = reinterpret_cast<const kernels::Crop*>(table.const_data_ptr<uint8_t>());
    const at::Tensor untouched = at::empty({count}, at::TensorOptions(at::kBool).device(device_));
    C10_CUDA_CHECK(static_cast<cudaError_t>(
        kernels::LaunchFindUntouched(on_device, count, untouched.mutable_data_ptr<bool>(), stream)));
    C10_CUDA_CHECK(static_cast<cudaError_t>(kernels::LaunchResize({on_device, count, side, cubic_}, stream)));
    const at::Tensor answer = untouched.cpu();
    const bool* first = answer.const_data_ptr<bool>();
    return std::vector<bool>(first, first + count);
  }

  const at::Device device_;
  const bool cubic_;
  const Library library_;
  // The allocators reuse freed memory only when the current stream, on which decoding runs, is done with it.
  Memory on_device_{*c10::cuda::CUDACachingAllocator::get(), [this](const c10::DataPtr& freed) {
                      const auto stream = c10::cuda::getCurrentCUDAStream(device_.index());
                      c10::cuda::CUDACachingAllocator::recordStream(freed, stream);
                    }};
  Memory pinned_{*at::getHostAllocator(at::kCUDA), [this](const c10::DataPtr& freed) {
                   const auto stream = c10::cuda::getCurrentCUDAStream(device_.index());
                   at::getHostAllocator(at::kCUDA)->record_event(freed.get(), freed.get_context(), stream.unwrap());
                 }};
  nvjpegDevAllocatorV2_t device_allocator_ = DeviceAllocatorOf(on_device_);
  nvjpegPinnedAllocatorV2_t pinned_allocator_ = PinnedAllocatorOf(pinned_);
  CropDecoder decoder_;
};

// Returns the folder of LibTorch's libraries, or an empty string if the loader does not know it.
std::string TorchLibraries() {
  Dl_info where{};
  if (dladdr(reinterpret_cast<void*>(&c10::cuda::current_device), &where) == 0 || where.dli_fname == nullptr) return "";
  return std::filesystem::path(where.dli_fname).parent_path().string();
}

}  // namespace

std::unique_ptr<DeviceImageDecoder> MakeNvjpegDecoder(at::Device device, Interpolation interpolation) {
  constexpr int kCudaMajor = CUDART_VERSION / 1000;
  return std::make_unique<NvjpegDecoder>(device, interpolation,
                                         LoadLibrary(LibraryPlaces(TorchLibraries(), kCudaMajor)));
}

}  // namespace dtrain::data::nvjpeg
