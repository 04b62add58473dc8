// All work runs on one stream, including work that is not recorded: cuBLAS keeps workspaces per stream, and they must
// exist before the recording. The capture mode is thread-local, because other threads allocate pinned memory and wait
// for events meanwhile, which the global mode would forbid. The backward pass runs on a thread of autograd and is
// recorded all the same, because its stream is being captured.
#include "trainer/device/cuda_graph.h"

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace dtrain::distributed {
namespace {

class CudaGraph : public DeviceGraph {
 public:
  explicit CudaGraph(c10::DeviceIndex device)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)) {}

  void Run(const std::function<void()>& work) override {
    const c10::cuda::CUDAStream callers = c10::cuda::getCurrentCUDAStream(stream_.device_index());
    at::cuda::CUDAEvent before, after;
    before.record(callers);
    before.block(stream_);
    {
      const c10::cuda::CUDAStreamGuard on_stream(stream_);
      work();
    }
    after.record(stream_);
    after.block(callers);
  }

  void Record(const std::function<void()>& work) override {
    graph_.reset();
    // A graph has its own pool of memory, and the allocator cannot free cached memory for it during the recording, so
    // the cache is emptied before.
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    graph_ = std::make_unique<at::cuda::CUDAGraph>();
    const c10::cuda::CUDAStreamGuard on_stream(stream_);
    graph_->capture_begin(/*pool=*/{0, 0}, cudaStreamCaptureModeThreadLocal);
    work();
    graph_->capture_end();
  }

  void Replay() override {
    Run([this] { graph_->replay(); });
  }

 private:
  c10::cuda::CUDAStream stream_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

}  // namespace

std::unique_ptr<DeviceGraph> MakeCudaGraph(at::Device device) { return std::make_unique<CudaGraph>(device.index()); }

}  // namespace dtrain::distributed
