// Streams and events come through c10's device-independent interface, which a CUDA build of LibTorch implements when it
// is loaded, so that this file does not link CUDA.
#include "data/pipeline/device_feed.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace dtrain::data {
namespace {

at::Tensor Copied(const at::Tensor& tensor, at::Device device) {
  at::Tensor copy = at::empty_like(tensor, tensor.options().device(device).pinned_memory(false));
  copy.copy_(tensor, /*non_blocking=*/true);
  return copy;
}

// One for the process, which has one device: LibTorch's streams are 32, which come again in turn, and each keeps memory
// of its own. An evaluation's copies would sooner or later be made on the stream of the steps.
c10::Stream CopyStream(at::Device device) {
  static const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  return stream;
}

// The device's memory comes from the caching allocator, which is told of both streams: it reuses a batch's memory only
// after the step that reads it is done. Likewise, pinned host memory is reused only after the copy is done.
class SideStreamTransport : public BatchTransport {
 public:
  explicit SideStreamTransport(at::Device device)
      : device_(device), guard_(device.type()), side_(CopyStream(device)), copied_(device.type()) {}

  Batch Start(Batch host) override {
    const c10::StreamGuard on_side_stream(side_);
    Batch batch = CopyToDevice(std::move(host), device_);
    copied_.record(side_);
    return batch;
  }

  void Arrive(const Batch& batch) override {
    const c10::Stream computing = guard_.getStream(device_);
    for (const auto& [name, tensor] : batch.tensors) tensor.record_stream(computing);
    copied_.block(computing);
  }

 private:
  at::Device device_;
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream side_;
  c10::Event copied_;
};

}  // namespace

Batch CopyToDevice(Batch host, at::Device device) {
  for (auto& [name, tensor] : host.tensors) tensor = Copied(tensor, device);
  return host;
}

std::unique_ptr<BatchTransport> MakeTransport(at::Device device) {
  return device.is_cpu() ? nullptr : std::make_unique<SideStreamTransport>(device);
}

DeviceFeed::DeviceFeed(Loader& loader, std::unique_ptr<BatchTransport> transport, Preparation prepare)
    : loader_(loader), transport_(std::move(transport)), prepare_(std::move(prepare)) {}

std::optional<Batch> DeviceFeed::NextPrepared() {
  auto batch = loader_.Next();
  if (batch && prepare_ && batch->size() > 0) batch = prepare_(std::move(*batch));
  return batch;
}

std::optional<Batch> DeviceFeed::Next() {
  if (!transport_) return NextPrepared();
  if (!ahead_) {
    auto host = NextPrepared();
    if (!host) return std::nullopt;
    ahead_ = transport_->Start(std::move(*host));
  }
  Batch batch = *std::exchange(ahead_, std::nullopt);
  transport_->Arrive(batch);
  if (loader_.IsReady()) ahead_ = transport_->Start(std::move(*NextPrepared()));
  return batch;
}

}  // namespace dtrain::data
