// However the shards are divided among ranks, their sum has the bits of the same tree. The expected bits come from a
// recursion over the tree, which is written differently here.
#include "trainer/distributed/shard_sum.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/trainer/distributed/ranks_in_threads.h"
#include "trainer/config/batch_sizes.h"

namespace dtrain::distributed {
namespace {

constexpr int64_t kElements = 1001;  // no multiple of any number of ranks below

// Numbers of very different sizes, so that another order of additions gives other bits.
std::vector<at::Tensor> VectorsOf(int64_t shards, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  std::vector<at::Tensor> vectors;
  for (int64_t shard = 0; shard < shards; ++shard) {
    const at::Tensor exponents = at::randn({kElements}, generator, at::kFloat) * 3;
    vectors.push_back(at::randn({kElements}, generator, at::kFloat) * exponents.exp());
  }
  return vectors;
}

// The sum of the shards from `first` to `end`: that of the largest power of two that is smaller than their number, plus
// that of the rest.
at::Tensor TreeSum(const std::vector<at::Tensor>& vectors, int64_t first, int64_t end) {
  if (end - first == 1) return vectors[static_cast<size_t>(first)].clone();
  int64_t half = 1;
  while (2 * half < end - first) half *= 2;
  return TreeSum(vectors, first, first + half) + TreeSum(vectors, first + half, end);
}

at::Tensor SumOnRank(const std::vector<at::Tensor>& vectors, ShardSum& sum, const Communicator& communicator) {
  const auto shards = static_cast<int64_t>(vectors.size());
  const config::ShardRange own = config::DivisionOf(shards, communicator.rank(), communicator.world_size());
  for (int64_t shard = own.first; shard < own.end; ++shard) sum.Next().copy_(vectors[static_cast<size_t>(shard)]);
  return sum.Sum();
}

TEST(ShardSum, HasTheSameBitsOnAnyNumberOfRanks) {
  for (const int world : {1, 2, 3, 5}) {
    RunTraining(world, [](int, Communicator& communicator, control::ControlPlane&) {
      for (const int64_t shards : {1, 2, 3, 5, 6, 7, 8, 13}) {  // with more ranks than shards, too
        ShardSum sum(shards, kElements, at::kFloat, communicator);
        for (uint64_t step = 0; step < 3; ++step) {
          const std::vector<at::Tensor> vectors = VectorsOf(shards, step);
          EXPECT_TRUE(at::equal(SumOnRank(vectors, sum, communicator), TreeSum(vectors, 0, shards)))
              << shards << " shards on " << communicator.world_size() << " ranks, step " << step;
        }
      }
    });
  }
}

}  // namespace
}  // namespace dtrain::distributed
