// Copies of many tensors to the host: a checkpoint's hundreds in one go. From a GPU they are copied into pinned memory
// without waiting, so that the loop goes on at once, and only the thread that writes them waits.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trainer/checkpoint/safetensors.h"

namespace dtrain::checkpoint {

struct HostCopies {
  std::vector<NamedTensors> sets;  // as they were given, of the same strides, in a few large allocations
  // Returns when the copies are there; any thread, any number of times. What is computed on the GPU after this was made
  // cannot reach the copies: it is queued behind them.
  std::function<void()> wait;
};

// All tensors are on one device, which is current, or some on the CPU. On the current stream. An allocation has at most
// `piece_bytes`, or holds a single tensor.
HostCopies CopyToHost(const std::vector<NamedTensors>& sets, int64_t piece_bytes = int64_t{256} << 20);

}  // namespace dtrain::checkpoint
