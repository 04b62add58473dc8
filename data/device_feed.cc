// Streams and events come through c10's device-independent interface, which a CUDA build of LibTorch fills in when it
// is loaded: nothing here is linked with CUDA.
#include "data/device_feed.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace dtrain::data {
namespace {

// The device's memory comes from the caching allocator, which is told of both streams: a batch's memory is used again
// when the step that reads it is done, and no earlier. The pinned host memory likewise, when the copy is done.
class SideStreamTransport : public BatchTransport {
 public:
  explicit SideStreamTransport(at::Device device)
      : device_(device), guard_(device.type()), side_(guard_.getStreamFromGlobalPool(device)), copied_(device.type()) {}

  Batch Start(const Batch& host) override {
    const c10::Stream computing = guard_.getStream(device_);
    const c10::StreamGuard on_side_stream(side_);
    Batch batch;
    batch.number = host.number;
    for (const auto& [name, tensor] : host.tensors) {
      if (name == "index") {  // for people and files, not for the network
        batch.tensors[name] = tensor;
        continue;
      }
      at::Tensor copy = at::empty_like(tensor, tensor.options().device(device_).pinned_memory(false));
      copy.copy_(tensor, /*non_blocking=*/true);
      copy.record_stream(computing);
      batch.tensors[name] = std::move(copy);
    }
    copied_.record(side_);
    return batch;
  }

  void Arrive(const Batch&) override { copied_.block(guard_.getStream(device_)); }

 private:
  at::Device device_;
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream side_;
  c10::Event copied_;
};

}  // namespace

std::unique_ptr<BatchTransport> MakeTransport(at::Device device) {
  return device.is_cpu() ? nullptr : std::make_unique<SideStreamTransport>(device);
}

DeviceFeed::DeviceFeed(Loader& loader, std::unique_ptr<BatchTransport> transport)
    : loader_(loader), transport_(std::move(transport)) {}

std::optional<Batch> DeviceFeed::Next() {
  if (!transport_) return loader_.Next();
  if (!ahead_) {
    const auto host = loader_.Next();
    if (!host) return std::nullopt;
    ahead_ = transport_->Start(*host);
  }
  std::optional<Batch> batch = std::exchange(ahead_, std::nullopt);
  transport_->Arrive(*batch);
  if (loader_.IsReady()) ahead_ = transport_->Start(*loader_.Next());
  return batch;
}

}  // namespace dtrain::data
