#include "data/nvjpeg/memory.h"

#include <exception>
#include <utility>

namespace dtrain::data::nvjpeg {
namespace {

int AllocateFrom(void* memory, void** made, size_t bytes, cudaStream_t /*stream*/) {
  return static_cast<Memory*>(memory)->Allocate(made, bytes);
}

int FreeTo(void* memory, void* freed, size_t /*bytes*/, cudaStream_t /*stream*/) {
  return static_cast<Memory*>(memory)->Free(freed);
}

}  // namespace

int Memory::Allocate(void** memory, size_t bytes) noexcept {
  try {
    c10::DataPtr made = allocator_.allocate(bytes);
    *memory = made.get();
    if (*memory == nullptr) return bytes == 0 ? 0 : 1;
    const std::lock_guard lock(mutex_);
    held_.insert_or_assign(*memory, std::move(made));
    return 0;
  } catch (const std::exception&) {  // nvJPEG then refuses the image, and the CPU decodes it
    return 1;
  }
}

int Memory::Free(void* memory) noexcept {
  if (memory == nullptr) return 0;
  try {
    c10::DataPtr freed;
    {
      const std::lock_guard lock(mutex_);
      const auto found = held_.find(memory);
      if (found == held_.end()) return 1;
      freed = std::move(found->second);
      held_.erase(found);
    }
    before_free_(freed);
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

nvjpegDevAllocatorV2_t DeviceAllocatorOf(Memory& memory) { return {&AllocateFrom, &FreeTo, &memory}; }
nvjpegPinnedAllocatorV2_t PinnedAllocatorOf(Memory& memory) { return {&AllocateFrom, &FreeTo, &memory}; }

}  // namespace dtrain::data::nvjpeg
