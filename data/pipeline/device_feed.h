// Brings the loader's batches to the device; the next batch is copied while the current one is computed on.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <optional>

#include "data/pipeline/batch.h"
#include "data/pipeline/loader.h"

namespace dtrain::data {

// Starts the copy of a host batch's `tensors` on the current stream.
Batch CopyToDevice(Batch host, at::Device device);

// Copies batches to a device.
class BatchTransport {
 public:
  virtual ~BatchTransport() = default;

  // Starts the copy of a host batch and returns the device batch that it fills. One call at a time, from any thread.
  virtual Batch Start(Batch host) = 0;

  // Makes everything that the caller's stream computes from now on wait for the copy that was started last. The call
  // itself does not wait.
  virtual void Arrive(const Batch& batch) = 0;
};

// Returns a transport that copies to a GPU on a stream of its own; null for the CPU. The copies overlap with computing
// only if the host batches are pinned (LoaderOptions::pin_memory).
std::unique_ptr<BatchTransport> MakeTransport(at::Device device);

class DeviceFeed {
 public:
  // Prepares a batch on the host, for instance computes numbers for which the device would otherwise have to be waited
  // for. Called on the thread that calls Next, never with an empty batch.
  using Preparation = std::function<Batch(Batch host)>;

  // `loader` must outlive the feed, which must be the only one to call its Next. Each batch is prepared, if `prepare`
  // is given, and then copied; without a transport it stays on the host.
  DeviceFeed(Loader& loader, std::unique_ptr<BatchTransport> transport, Preparation prepare = nullptr);

  // As Loader::Next. Before it returns a batch, it starts the copy of the next one if the loader has that ready; a
  // batch that is late or cannot be made is left to the next call.
  std::optional<Batch> Next();

 private:
  std::optional<Batch> NextPrepared();

  Loader& loader_;
  std::unique_ptr<BatchTransport> transport_;
  Preparation prepare_;
  std::optional<Batch> ahead_;  // the next batch, whose copy is under way
};

}  // namespace dtrain::data
