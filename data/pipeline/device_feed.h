// Between the loader and the step: batches on the device, the next one's copy under way while this one is computed on.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>

#include "data/pipeline/batch.h"
#include "data/pipeline/device_batch.h"
#include "data/pipeline/loader.h"

namespace dtrain::data {

// How a batch gets to a device.
class BatchTransport {
 public:
  virtual ~BatchTransport() = default;

  // Starts the copy of a host batch, and returns the one that is being filled. One call at a time, from any thread.
  virtual Batch Start(Batch host) = 0;

  // Makes what the caller computes from now on wait for the copy that was started last. Does not wait itself.
  virtual void Arrive(const Batch& batch) = 0;
};

// For a GPU: copies on a stream of their own, beside the one that computes. Null for the CPU. The copies overlap only
// where the host batches are pinned (LoaderOptions::pin_memory). `decoder`: for batches with deferred rows; outlives
// the transport.
std::unique_ptr<BatchTransport> MakeTransport(at::Device device, DeviceImageDecoder* decoder = nullptr);

class DeviceFeed {
 public:
  // Works out on the host what a device would have to be waited for.
  using Preparation = std::function<Batch(Batch host)>;

  // `loader` outlives the feed, which is its one caller. Each batch is prepared, where that is given, and then copied;
  // without a transport it stays where it is.
  DeviceFeed(Loader& loader, std::unique_ptr<BatchTransport> transport, Preparation prepare = nullptr);

  // As Loader::Next. Before it returns a batch, the copy of the one after it is started if that is ready: a batch that
  // is late, or cannot be made, is the next call's affair. Deferred rows take a while: a thread of their own sees to
  // them while the caller computes.
  std::optional<Batch> Next();

 private:
  std::optional<Batch> NextPrepared();
  std::future<Batch> Start(Batch host);

  Loader& loader_;
  std::unique_ptr<BatchTransport> transport_;
  Preparation prepare_;
  std::future<Batch> ahead_;  // its copy is under way; the thread, if there is one, is joined with it
};

}  // namespace dtrain::data
