// nvJPEG's memory from LibTorch's caching allocators. CUDA's own cudaFree and cudaFreeHost make the host wait for all
// of the GPU's streams: a scratch buffer that grows would stall training in the middle of a step.
#pragma once

#include <c10/core/Allocator.h>
#include <nvjpeg.h>

#include <functional>
#include <mutex>
#include <unordered_map>

#include "data/nvjpeg/crop_decoder.h"

namespace dtrain::data::nvjpeg {

// What nvJPEG has of one allocator.
class Memory {
 public:
  // Called with memory that nvJPEG gives back, on the thread that gave the work: tells the allocator for which stream's
  // work it must wait before it hands the memory out again.
  using BeforeFree = std::function<void(const c10::DataPtr&)>;

  // `allocator` outlives this.
  Memory(c10::Allocator& allocator, BeforeFree before_free)
      : allocator_(allocator), before_free_(std::move(before_free)) {}

  // 0 for done, 1 where there is not enough, or for a pointer that is not from here. Nothing is thrown: it would pass
  // through nvJPEG.
  int Allocate(void** memory, size_t bytes) noexcept;
  int Free(void* memory) noexcept;

 private:
  c10::Allocator& allocator_;
  const BeforeFree before_free_;
  std::mutex mutex_;  // nvJPEG does not say on which threads it calls
  std::unordered_map<void*, c10::DataPtr> held_;
};

nvjpegDevAllocatorV2_t DeviceAllocatorOf(Memory& memory);
nvjpegPinnedAllocatorV2_t PinnedAllocatorOf(Memory& memory);

}  // namespace dtrain::data::nvjpeg
