#include "trainer/distributed/communicator.h"

#include <algorithm>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "trainer/control/line_socket.h"
#include "trainer/control/stall_watch.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/device/device.h"
#include "trainer/distributed/rendezvous.h"

namespace dtrain::distributed {
namespace {

constexpr size_t kBroadcastBytes = 64 << 20;
// The control plane finds late ranks first, because it can name them and allows for saves. The backend's own timeout is
// longer, for the case that the control plane fails.
constexpr double kControlLeadSeconds = 1;
constexpr int kThreadsOfGloo = 1;  // besides its workers

struct GatherFunction : torch::autograd::Function<GatherFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& rows,
                            Communicator* communicator) {
    context->saved_data["communicator"] = reinterpret_cast<int64_t>(communicator);
    std::vector<int64_t> shape = rows.sizes().vec();
    shape[0] *= communicator->world_size();
    at::Tensor all = at::empty(shape, rows.options());
    communicator->Gather(rows.contiguous(), all);
    return all;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto& communicator = *reinterpret_cast<Communicator*>(context->saved_data["communicator"].toInt());
    at::Tensor all = gradients[0].clone(at::MemoryFormat::Contiguous);
    communicator.Sum(all);
    const int64_t rows = all.size(0) / communicator.world_size(), first = communicator.rank() * rows;
    return {all.slice(0, first, first + rows), {}};
  }
};

}  // namespace

Communicator::Communicator() = default;

Communicator::Communicator(Rendezvous& rendezvous, at::Device device, double timeout_seconds)
    : rank_(rendezvous.launch().rank), world_size_(rendezvous.launch().world_size) {
  const double backend_timeout_seconds =
      std::max(control::ClampedSeconds(timeout_seconds), control::kSavingSeconds) + kControlLeadSeconds;
  const auto timeout = control::Milliseconds(backend_timeout_seconds);
  auto store = c10::make_intrusive<c10d::PrefixStore>("gloo", rendezvous.store());
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  // Gloo listens on the interface that leads to rank 0, not on the address to which this machine's host name resolves.
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(rendezvous.local_address()));
  device::RequireThreads(options->threads +
                         kThreadsOfGloo);  // Gloo would wait for ever for threads that it could not start
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank_, world_size_, options);
  group_ = c10::make_intrusive<c10d::ProcessGroup>(store, rank_, world_size_);
  group_->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  group_->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  if (device.is_cuda()) {
    const auto nccl_store = c10::make_intrusive<c10d::PrefixStore>("nccl", rendezvous.store());
    group_->setBackend(
        c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL,
        device::LoadCudaPlugin().make_nccl(nccl_store, rank_, world_size_, device, backend_timeout_seconds));
    group_->setDefaultBackend(c10d::ProcessGroup::BackendType::NCCL);
  }
}

// Does what c10d's destructor would do, which prints first that somebody forgot it.
Communicator::~Communicator() {
  if (group_ && group_->hasBackends() && group_->getDefaultBackend()->getBackendName() == "nccl") {
    group_->getDefaultBackend()->abort();
  }
}

void Communicator::Sum(at::Tensor& tensor) {
  if (is_alone()) return;
  std::vector<at::Tensor> tensors = {tensor};
  group_->allreduce(tensors)->wait();
}

void Communicator::ExchangePieces(const at::Tensor& sent, std::vector<int64_t> sent_elements, at::Tensor received,
                                  std::vector<int64_t> received_elements) {
  if (is_alone()) return void(received.copy_(sent));
  at::Tensor input = sent;
  group_->alltoall_base(received, input, received_elements, sent_elements)->wait();
}

void Communicator::Gather(const at::Tensor& piece, at::Tensor all) {
  if (is_alone()) return void(all.copy_(piece));
  at::Tensor input = piece;
  group_->_allgather_base(all, input)->wait();
}

void Communicator::BroadcastFromFirst(const std::vector<at::Tensor>& tensors) {
  if (is_alone()) return;
  c10d::broadcast_coalesced(group_, tensors, kBroadcastBytes);
}

void Communicator::Barrier() {
  at::Tensor one = at::ones({1});
  Sum(one);
}

at::Tensor GatheredRows(const at::Tensor& rows, Communicator& communicator) {
  return communicator.is_alone() ? rows : GatherFunction::apply(rows, &communicator);
}

}  // namespace dtrain::distributed
