// nvJPEG's memory, with the CPU's allocator in place of the GPU's.
#include "data/nvjpeg/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <vector>

namespace dtrain::data::nvjpeg {
namespace {

using testing::ElementsAre;

struct CountingAllocator : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes > 1000) throw std::runtime_error("not enough memory");
    ++alive;
    auto* memory = new std::vector<char>(bytes);
    return {memory->data(), memory, &Delete, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
  static void Delete(void* memory) {
    --alive;
    delete static_cast<std::vector<char>*>(memory);
  }
  static inline int alive = 0;
};

TEST(NvjpegMemory, IsTheAllocatorsAndGoesBackAfterItWasToldOf) {
  CountingAllocator allocator;
  std::vector<void*> told;
  {
    Memory memory(allocator, [&](const c10::DataPtr& freed) {
      EXPECT_EQ(CountingAllocator::alive, 2);
      told.push_back(freed.get());
    });
    const nvjpegDevAllocatorV2_t device = DeviceAllocatorOf(memory);
    const nvjpegPinnedAllocatorV2_t pinned = PinnedAllocatorOf(memory);
    void *one = nullptr, *other = nullptr, *too_much = nullptr;
    EXPECT_EQ(device.dev_malloc(device.dev_ctx, &one, 100, nullptr), 0);
    EXPECT_EQ(pinned.pinned_malloc(pinned.pinned_ctx, &other, 10, nullptr), 0);
    std::memset(one, 1, 100);
    EXPECT_NE(device.dev_malloc(device.dev_ctx, &too_much, 1001, nullptr), 0);
    EXPECT_EQ(CountingAllocator::alive, 2);
    EXPECT_EQ(device.dev_free(device.dev_ctx, one, 100, nullptr), 0);
    EXPECT_THAT(told, ElementsAre(one));
    EXPECT_EQ(CountingAllocator::alive, 1);
    EXPECT_NE(device.dev_free(device.dev_ctx, &told, 8, nullptr), 0);
    EXPECT_EQ(device.dev_free(device.dev_ctx, nullptr, 0, nullptr), 0);
  }
  EXPECT_EQ(CountingAllocator::alive, 0);  // memory that nvJPEG did not free is freed, too
}

}  // namespace
}  // namespace dtrain::data::nvjpeg
