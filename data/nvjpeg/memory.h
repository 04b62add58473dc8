// Gives nvJPEG memory of LibTorch's caching allocators. CUDA's own cudaFree and cudaFreeHost make the host wait for all
// of the GPU's streams, so a scratch buffer that grows would stall training in the middle of a step.
#pragma once

#include <c10/core/Allocator.h>
#include <nvjpeg.h>

#include <functional>
#include <mutex>
#include <unordered_map>

#include "data/nvjpeg/crop_decoder.h"

namespace dtrain::data::nvjpeg {

// The memory that nvJPEG holds of one allocator.
class Memory {
 public:
  // Called with memory that nvJPEG frees, on the thread on which it frees it. It tells the allocator for which stream's
  // work to wait before the memory is handed out again.
  using BeforeFree = std::function<void(const c10::DataPtr&)>;

  // `allocator` must outlive this object.
  Memory(c10::Allocator& allocator, BeforeFree before_free)
      : allocator_(allocator), before_free_(std::move(before_free)) {}

  // Return 0 on success, and 1 if there is not enough memory or the pointer is not from here. They do not throw,
  // because an exception would pass through nvJPEG.
  int Allocate(void** memory, size_t bytes) noexcept;
  int Free(void* memory) noexcept;

 private:
  c10::Allocator& allocator_;
  const BeforeFree before_free_;
  std::mutex mutex_;  // nvJPEG does not document on which threads it calls
  std::unordered_map<void*, c10::DataPtr> held_;
};

// Return nvJPEG's interface to `memory`, which must outlive it.
nvjpegDevAllocatorV2_t DeviceAllocatorOf(Memory& memory);
nvjpegPinnedAllocatorV2_t PinnedAllocatorOf(Memory& memory);

}  // namespace dtrain::data::nvjpeg
