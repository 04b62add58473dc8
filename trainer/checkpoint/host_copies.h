// Copies the hundreds of tensors of a checkpoint to the host. From a GPU the copies go into pinned memory and nobody
// waits for them here: the loop goes on at once, and only the thread that writes them waits.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trainer/checkpoint/safetensors.h"

namespace dtrain::checkpoint {

struct HostCopies {
  std::vector<NamedTensors> sets;  // as given, with the same strides, in a few large allocations
  // Returns when the copies are complete. May be called on any thread, any number of times. Work that is queued on the
  // stream after CopyToHost cannot change the copies, since it runs after them.
  std::function<void()> wait;
};

// Starts the copies on the current stream. Each tensor is on the CPU or on one device, the current one. An allocation
// has at most `piece_bytes` or holds a single tensor.
HostCopies CopyToHost(const std::vector<NamedTensors>& sets, int64_t piece_bytes = int64_t{256} << 20);

}  // namespace dtrain::checkpoint
