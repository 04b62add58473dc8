#include "data/pipeline/device_batch.h"

#include <ATen/ops/empty_like.h>

#include <stdexcept>
#include <utility>

namespace dtrain::data {
namespace {

// Whether networks read this tensor. The others (the index, and where images were cropped) are for messages and files
// and stay on the host.
bool IsForNetworks(const std::string& name) { return name != "index" && name != "crop" && name != "flip"; }

at::Tensor SpaceFor(const at::Tensor& tensor, at::Device device) {
  return at::empty_like(tensor, tensor.options().device(device).pinned_memory(false));
}

at::Tensor Copied(const at::Tensor& tensor, at::Device device) {
  at::Tensor copy = SpaceFor(tensor, device);
  copy.copy_(tensor, /*non_blocking=*/true);
  return copy;
}

at::Tensor WithDeferredImages(Batch& host, at::Device device, DeviceImageDecoder* decoder) {
  if (decoder == nullptr) throw std::logic_error("a batch has deferred rows, and nothing that decodes them");
  const at::Tensor& on_host = host["images"];
  std::vector<DeferredRow>& rows = host.deferred->rows;
  const bool all_deferred = static_cast<int64_t>(rows.size()) == host.size();
  at::Tensor images = all_deferred ? SpaceFor(on_host, device) : Copied(on_host, device);
  const std::vector<size_t> failed = decoder->Decode(rows, images);
  for (const size_t i : failed) {
    const int64_t row = rows.at(i).row;
    host.deferred->decode_here(std::move(rows[i]));
    images.select(0, row).copy_(on_host.select(0, row), /*non_blocking=*/true);
  }
  host.decoded_on_device = static_cast<int64_t>(rows.size() - failed.size());
  return images;
}

}  // namespace

Batch CopyToDevice(Batch host, at::Device device, DeviceImageDecoder* decoder) {
  Batch batch;
  batch.number = host.number;
  batch.on_host = std::move(host.on_host);
  // Images come first: a bad one is replaced, and its replacement has another label.
  if (host.deferred) batch.tensors["images"] = WithDeferredImages(host, device, decoder);
  batch.decoded_on_device = host.decoded_on_device;
  for (const auto& [name, tensor] : host.tensors) {
    if (batch.tensors.contains(name)) continue;
    batch.tensors[name] = IsForNetworks(name) ? Copied(tensor, device) : tensor;
  }
  return batch;
}

}  // namespace dtrain::data
