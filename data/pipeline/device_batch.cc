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
  Batch batch;
  batch.number = host.number;
  batch.on_host = std::move(host.on_host);
  for (const auto& [name, tensor] : host.tensors) {
    batch.tensors[name] = IsForNetworks(name) ? Copied(tensor, device) : tensor;
  }
  return batch;
}

}  // namespace dtrain::data
