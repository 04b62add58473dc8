// The process group of a run, and the few collectives that training needs besides the reduction of gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trainer/launch/launch.h"

namespace c10d {
class ProcessGroup;
}

namespace dtrain::distributed {

class Rendezvous;

// All methods but the accessors are collectives: every rank calls them in the same order. Without a process group they
// do nothing. If a peer is lost they throw the errors of c10d and Gloo; the control plane knows which peer it was.
class Communicator {
 public:
  // For one rank, without a process group.
  Communicator();
  // For several ranks, or for one rank that is to work as several would. Connects to the other ranks through
  // `rendezvous`, after its WaitForAll. CPU tensors travel over Gloo, tensors of a GPU over NCCL. The collectives'
  // timeout is slightly longer than `timeout_seconds`, and at least the time that a rank may take to save.
  Communicator(Rendezvous& rendezvous, at::Device device, double timeout_seconds);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  bool is_alone() const { return !group_; }
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }  // null if is_alone()

  // Adds `tensor`, which must be contiguous, over all ranks, in place.
  void Sum(at::Tensor& tensor);
  // Sends a piece of `sent` to each rank, and receives one from each, in the order of the ranks. The tensors have one
  // dimension, and are cut into pieces of these numbers of elements.
  void ExchangePieces(const at::Tensor& sent, std::vector<int64_t> sent_elements, at::Tensor received,
                      std::vector<int64_t> received_elements);
  // Receives each rank's `piece`, which have equal shapes, one after another in `all`. Both are contiguous.
  void Gather(const at::Tensor& piece, at::Tensor all);
  // Copies rank 0's tensors into those of all ranks, in pieces of up to 64 MiB.
  void BroadcastFromFirst(const std::vector<at::Tensor>& tensors);
  void Barrier();  // returns when all ranks have called it

 private:
  int rank_ = 0;
  int world_size_ = 1;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

// For losses that compare the samples of all ranks. A collective, and in the backward pass another one. Returns the
// rows of all ranks, which have equally many, in the order of the ranks: B×… → (world size · B)×…. Each rank's rows
// receive the sum of the gradients that all ranks have computed for them: with losses that add up over the ranks, the
// gradients are those of one rank with all the rows. The communicator must outlive the backward pass.
at::Tensor GatheredRows(const at::Tensor& rows, Communicator& communicator);

}  // namespace dtrain::distributed
