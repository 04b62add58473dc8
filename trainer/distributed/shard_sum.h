// Adds one vector of each shard of the global batch (--deterministic=elastic), with the same bits however the shards
// are divided among the ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trainer/distributed/communicator.h"

namespace dtrain::distributed {

// The vectors are the leaves of a binary tree, in the order of the shards, and each inner node is the sum of its two
// children. Who adds them does not matter: a rank adds what it has of the tree while it computes its shards, so that it
// keeps and sends a few sums (one, if its shards are a whole branch). For each rank there is a piece of the vectors. It
// gets this piece of the sums of all ranks, adds them up to the root, and sends the result to all.
class ShardSum {
 public:
  // Rank r of W has the shards from r·shards/W to (r+1)·shards/W, which may be none (config::DivisionOf). All ranks
  // give the same numbers and `options` (type and device). `communicator` must outlive this.
  ShardSum(int64_t shards, int64_t elements, const at::TensorOptions& options, Communicator& communicator);

  // Returns the vector of this rank's next shard, for the caller to fill before the next call of any method. To be
  // called once for each of its shards, in their order.
  at::Tensor Next();

  // A collective. Returns the sum over all shards, the same bits on all ranks. It is valid until Next is called.
  at::Tensor Sum();

 private:
  // The sum of the shards index · 2^level to (index + 1) · 2^level.
  struct Node {
    int64_t level = 0, index = 0;
    at::Tensor sum = {};
  };

  // Adds a node on the right, and each pair of siblings. Returns the vectors of right siblings, which are free then.
  static std::vector<at::Tensor> Push(std::vector<Node>& nodes, Node node);
  static std::vector<Node> LeavesOf(int64_t first, int64_t end);
  // Adds nodes that have no siblings: they remain if the number of shards is no power of two.
  static at::Tensor RootOf(const std::vector<Node>& nodes);
  void PushFilled();
  at::Tensor SumOfRanks();
  at::Tensor Pieces() const;

  Communicator& communicator_;
  const int64_t elements_, piece_;  // the elements of a vector, and those of a rank's piece
  const at::TensorOptions options_;
  int64_t next_shard_, first_shard_;
  std::vector<Node> own_;          // this rank's part of the tree so far
  at::Tensor filled_;              // the vector of the shard before next_shard_, not yet in own_
  std::vector<at::Tensor> free_;   // vectors to use again
  std::vector<Node> of_all_;       // the nodes of all ranks, in their order, without sums
  std::vector<int64_t> received_;  // for each rank, the elements that it sends to this one
};

}  // namespace dtrain::distributed
