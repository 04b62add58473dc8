// A sum of two numbers is the same on all ranks, but a sum of three depends on which two are added first. So the tree
// says which, and no rank adds its shards in another order than that.
#include "trainer/distributed/shard_sum.h"

#include <ATen/ATen.h>

#include <utility>

#include "trainer/config/batch_sizes.h"

namespace dtrain::distributed {

ShardSum::ShardSum(int64_t shards, int64_t elements, const at::TensorOptions& options, Communicator& communicator)
    : communicator_(communicator),
      elements_(elements),
      piece_((elements + communicator.world_size() - 1) / communicator.world_size()),
      options_(options),
      first_shard_(config::DivisionOf(shards, communicator.rank(), communicator.world_size()).first) {
  next_shard_ = first_shard_;
  for (int rank = 0; rank < communicator.world_size(); ++rank) {
    const config::ShardRange range = config::DivisionOf(shards, rank, communicator.world_size());
    const std::vector<Node> nodes = LeavesOf(range.first, range.end);
    of_all_.insert(of_all_.end(), nodes.begin(), nodes.end());
    received_.push_back(static_cast<int64_t>(nodes.size()) * piece_);
  }
}

std::vector<at::Tensor> ShardSum::Push(std::vector<Node>& nodes, Node node) {
  std::vector<at::Tensor> released;
  while (!nodes.empty()) {
    const Node& left = nodes.back();
    const bool are_siblings = left.level == node.level && left.index % 2 == 0 && left.index + 1 == node.index;
    if (!are_siblings) break;
    if (left.sum.defined()) {
      left.sum.add_(node.sum);
      released.push_back(node.sum);
    }
    node = {.level = left.level + 1, .index = left.index / 2, .sum = left.sum};
    nodes.pop_back();
  }
  nodes.push_back(std::move(node));
  return released;
}

std::vector<ShardSum::Node> ShardSum::LeavesOf(int64_t first, int64_t end) {
  std::vector<Node> nodes;
  for (int64_t shard = first; shard < end; ++shard) Push(nodes, {.index = shard});
  return nodes;
}

at::Tensor ShardSum::RootOf(const std::vector<Node>& nodes) {
  at::Tensor sum = nodes.back().sum;
  for (size_t i = nodes.size() - 1; i > 0; --i) sum = nodes[i - 1].sum.add_(sum);
  return sum;
}

at::Tensor ShardSum::Next() {
  at::NoGradGuard no_grad;
  PushFilled();
  if (free_.empty()) free_.push_back(at::zeros({piece_ * communicator_.world_size()}, options_));
  filled_ = std::move(free_.back());
  free_.pop_back();
  ++next_shard_;
  return filled_.narrow(0, 0, elements_);
}

void ShardSum::PushFilled() {
  if (!filled_.defined()) return;
  for (at::Tensor& vector : Push(own_, {.index = next_shard_ - 1, .sum = std::exchange(filled_, {})})) {
    free_.push_back(std::move(vector));
  }
}

at::Tensor ShardSum::Sum() {
  at::NoGradGuard no_grad;
  PushFilled();
  next_shard_ = first_shard_;
  const at::Tensor total = communicator_.world_size() == 1 ? RootOf(own_) : SumOfRanks();
  // The total is one of these vectors, and stays until Next gives it away.
  for (Node& node : own_) free_.push_back(std::move(node.sum));
  own_.clear();
  return total.narrow(0, 0, elements_);
}

// Returns this rank's nodes as {ranks, nodes, piece}: the order in which they are sent.
at::Tensor ShardSum::Pieces() const {
  if (own_.size() == 1) return own_.front().sum;
  const auto nodes = static_cast<int64_t>(own_.size());
  at::Tensor pieces = at::empty({communicator_.world_size(), nodes, piece_}, options_);
  for (int64_t i = 0; i < nodes; ++i) {
    pieces.select(1, i).copy_(own_[static_cast<size_t>(i)].sum.view({communicator_.world_size(), piece_}));
  }
  return pieces;
}

at::Tensor ShardSum::SumOfRanks() {
  const auto world = static_cast<size_t>(communicator_.world_size());
  const std::vector<int64_t> sent(world, static_cast<int64_t>(own_.size()) * piece_);
  at::Tensor rows = at::empty({static_cast<int64_t>(of_all_.size()), piece_}, options_);
  communicator_.ExchangePieces(Pieces().view(-1), sent, rows.view(-1), received_);
  std::vector<Node> nodes;
  for (size_t i = 0; i < of_all_.size(); ++i) {
    Node node = of_all_[i];
    node.sum = rows[static_cast<int64_t>(i)];
    Push(nodes, std::move(node));
  }
  // What this rank has sent is no longer needed.
  const at::Tensor total = own_.empty() ? at::empty({piece_ * communicator_.world_size()}, options_) : own_.front().sum;
  communicator_.Gather(RootOf(nodes), total);
  return total;
}

}  // namespace dtrain::distributed
