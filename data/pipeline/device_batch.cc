#include "data/pipeline/device_batch.h"

#include <ATen/ops/empty_like.h>

#include <string>
#include <utility>

namespace dtrain::data {
namespace {

// Whether networks read this tensor. The others (the index, and where images were cropped) are for messages and files
// and stay on the host.
bool IsForNetworks(const std::string& name) { return name != "index" && name != "crop" && name != "flip"; }

at::Tensor Copied(const at::Tensor& tensor, at::Device device) {
  at::Tensor copy = at::empty_like(tensor, tensor.options().device(device).pinned_memory(false));
  copy.copy_(tensor, /*non_blocking=*/true);
  return copy;
}

}  // namespace

Batch CopyToDevice(Batch host, at::Device device) {
  for (auto& [name, tensor] : host.tensors) {
    if (IsForNetworks(name)) tensor = Copied(tensor, device);
  }
  return host;
}

}  // namespace dtrain::data
