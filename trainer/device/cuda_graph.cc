// All work runs on one stream, including work that is not recorded: cuBLAS keeps workspaces per stream, and they must
// exist before the recording. The capture mode is thread-local, because other threads allocate pinned memory and wait
// for events meanwhile, which the global mode would forbid. The backward pass runs on a thread of autograd and is
// recorded all the same, because its stream is being captured.
//
// The graphs share one pool of memory. That is safe because they never run at the same time and none reads what another
// one has left there.
#include "trainer/device/cuda_plugin.h"

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <mutex>

namespace dtrain::device {
namespace {

using c10::CachingAllocator::StatType;

// What CUDA keeps of a graph besides the memory of its tensors: up to 64 KiB for each of its thousand kernels.
constexpr int64_t kMostBytesOfGraph = int64_t{64} << 20;

// LibTorch ends only captures that have succeeded: after others its allocator and its random generator would believe
// for ever that the capture goes on.
class AbandonableGraph : public at::cuda::CUDAGraph {
 public:
  // To be called on the capturing stream if the captured work or capture_end has thrown. Puts a capture of next to
  // nothing in the place of the failed one, and ends that.
  void Abandon() {
    if (capture_ended_) return;
    cudaGraph_t part = nullptr;
    cudaStreamEndCapture(capture_stream_, &part);
    if (part != nullptr) cudaGraphDestroy(part);
    cudaGetLastError();  // else the next kernel would report the error
    C10_CUDA_CHECK(cudaStreamBeginCapture(capture_stream_, cudaStreamCaptureModeThreadLocal));
    C10_CUDA_CHECK(cudaLaunchHostFunc(
        capture_stream_, [](void*) {}, nullptr));
    capture_end();
  }
};

class CudaGraphs : public DeviceGraphs {
 public:
  explicit CudaGraphs(c10::DeviceIndex device)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)) {}

  void Run(const Work& work) override {
    OnStream(work);
    const c10::CachingAllocator::Stat allocated = Allocated();
    most_needed_ = std::max(most_needed_, allocated.peak - allocated.current);
  }

  Work Record(const Work& work) override {
    EmptyCache();
    if (pool_.use_count() <= 1) pool_ = std::make_shared<c10::MempoolId_t>(at::cuda::graph_pool_handle());
    const auto graph = std::make_shared<AbandonableGraph>();
    const c10::cuda::CUDAStreamGuard on_stream(stream_);
    graph->capture_begin(*pool_, cudaStreamCaptureModeThreadLocal);
    try {
      work();
      graph->capture_end();
    } catch (...) {
      graph->Abandon();
      throw;
    }
    return [this, graph, pool = pool_] { OnStream([&graph] { graph->replay(); }); };
  }

  bool HasRoom() override {
    EmptyCache();
    size_t free = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    const int64_t copies = pool_.use_count() > 1 ? 1 : 2;  // the pool of other graphs has one of them
    return static_cast<int64_t>(free) >= copies * most_needed_ + kMostBytesOfGraph;
  }

 private:
  void OnStream(const Work& work) {
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

  // While work is recorded, the allocator cannot free cached memory, so the cache is emptied before.
  static void EmptyCache() {
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
  }

  c10::CachingAllocator::Stat Allocated() const {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(stream_.device_index())
        .allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)];
  }

  c10::cuda::CUDAStream stream_;
  int64_t most_needed_ = 0;                 // bytes, by work in Run, besides those that it has left allocated
  std::shared_ptr<c10::MempoolId_t> pool_;  // of all graphs that live, each of which shares it
};

}  // namespace

std::unique_ptr<DeviceGraphs> MakeCudaGraphs(at::Device device) { return std::make_unique<CudaGraphs>(device.index()); }

models::kernels::RandomState CudaRandom() {
  at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator();
  const std::scoped_lock lock(generator.mutex());
  const at::PhiloxCudaState state =
      generator.get<at::CUDAGeneratorImpl>()->philox_cuda_state(models::kernels::kNumbersOfCounter);
  if (!state.captured_) return {.seed = state.seed_.val, .offset = state.offset_.val};
  return {.seed = 0, .offset = state.offset_intragraph_, .seed_at = state.seed_.ptr, .offset_at = state.offset_.ptr};
}

}  // namespace dtrain::device
