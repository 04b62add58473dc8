// The ranks of a run, and the few collectives that training needs outside the gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trainer/launch/launch.h"

namespace c10d {
class ProcessGroup;
}

namespace dtrain::distributed {

class Rendezvous;

// All methods but the accessors are collectives: every rank calls them in the same order. Without a process group they
// do nothing. When a peer is lost they throw what c10d and Gloo throw; who it was, the control plane knows.
class Communicator {
 public:
  // One rank, without a process group.
  Communicator();
  // Several (or one, that does as several would): meets the others through `rendezvous`; CPU tensors travel over Gloo,
  // those of a GPU over NCCL.
  Communicator(Rendezvous& rendezvous, at::Device device, double timeout_seconds);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  bool is_alone() const { return !group_; }
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }

  // In place; `tensor` is contiguous.
  void Sum(at::Tensor& tensor);
  // Copies rank 0's tensors to all, a few megabytes at a time.
  void BroadcastFromFirst(const std::vector<at::Tensor>& tensors);
  void Barrier();

 private:
  int rank_ = 0;
  int world_size_ = 1;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

}  // namespace dtrain::distributed
