// LibTorch allocates pinned memory in powers of two, so allocations near such a size waste little.
#include "trainer/checkpoint/host_copies.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace dtrain::checkpoint {
namespace {

constexpr int64_t kAlignment = 64;

int64_t AlignedBytes(const at::Tensor& tensor) {
  return (static_cast<int64_t>(tensor.nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
}

// Returns the bytes of each allocation, which holds as many consecutive tensors as fit into a piece, at least one.
std::vector<int64_t> PieceSizes(const std::vector<NamedTensors>& sets, int64_t piece_bytes) {
  std::vector<int64_t> sizes;
  for (const NamedTensors& set : sets) {
    for (const auto& [name, tensor] : set) {
      const int64_t bytes = AlignedBytes(tensor);
      if (sizes.empty() || sizes.back() + bytes > piece_bytes) sizes.push_back(0);
      sizes.back() += bytes;
    }
  }
  return sizes;
}

// Hands out memory for one tensor after the other, in the order of PieceSizes.
class Places {
 public:
  Places(const std::vector<NamedTensors>& sets, int64_t piece_bytes, bool pinned)
      : sizes_(PieceSizes(sets, piece_bytes)), options_(at::TensorOptions(at::kByte).pinned_memory(pinned)) {}

  // Returns an uninitialised tensor with the sizes, dtype and strides of `like` (contiguous if `like` has gaps).
  at::Tensor Next(const at::Tensor& like) {
    const int64_t bytes = AlignedBytes(like);
    if (!piece_.defined() || used_ + bytes > piece_.numel()) {
      piece_ = at::empty({sizes_.at(next_++)}, options_);
      used_ = 0;
    }
    const at::Tensor flat =
        piece_.slice(0, used_, used_ + static_cast<int64_t>(like.nbytes())).view(like.scalar_type());
    used_ += bytes;
    return like.is_non_overlapping_and_dense() ? flat.as_strided(like.sizes(), like.strides(), flat.storage_offset())
                                               : flat.view(like.sizes());
  }

 private:
  const std::vector<int64_t> sizes_;
  const at::TensorOptions options_;
  size_t next_ = 0;
  int64_t used_ = 0;
  at::Tensor piece_;
};

at::Device DeviceOf(const std::vector<NamedTensors>& sets) {
  for (const NamedTensors& set : sets) {
    for (const auto& [name, tensor] : set) {
      if (!tensor.is_cpu()) return tensor.device();
    }
  }
  return at::kCPU;
}

}  // namespace

HostCopies CopyToHost(const std::vector<NamedTensors>& sets, int64_t piece_bytes) {
  const at::NoGradGuard no_grad;
  const at::Device device = DeviceOf(sets);
  Places places(sets, piece_bytes, !device.is_cpu());
  HostCopies copies;
  for (const NamedTensors& set : sets) {
    copies.sets.emplace_back();
    for (const auto& [name, tensor] : set) {
      at::Tensor copy = places.Next(tensor);
      copy.copy_(tensor.detach(), /*non_blocking=*/true);
      copies.sets.back().emplace_back(name, std::move(copy));
    }
  }
  copies.wait = [] {};
  if (device.is_cpu()) return copies;
  const auto copied = std::make_shared<c10::Event>(device.type());
  copied->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  copies.wait = [copied] { copied->synchronize(); };
  return copies;
}

}  // namespace dtrain::checkpoint
