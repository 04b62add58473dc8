#include "trainer/checkpoint/host_copies.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

namespace dtrain::checkpoint {
namespace {

NamedTensors ManyTensors() {
  NamedTensors tensors;
  tensors.emplace_back("scalar", at::tensor(3, at::kLong));
  tensors.emplace_back("empty", at::empty({0, 3}));
  tensors.emplace_back("channels_last", at::randn({5, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast));
  tensors.emplace_back("half", at::randn({7}).to(at::kHalf));
  tensors.emplace_back("gaps", at::randn({9, 4}).slice(1, 0, 4, 2));
  tensors.emplace_back("transposed", at::randn({3, 4}).t());
  for (int i = 0; i < 300; ++i) tensors.emplace_back("w" + std::to_string(i), at::randn({i + 1}));
  return tensors;
}

TEST(CopyToHost, AreTheSameInOneAllocation) {
  const std::vector<NamedTensors> sets = {ManyTensors(), {}, ManyTensors()};
  const HostCopies copies = CopyToHost(sets);
  copies.wait();
  copies.wait();
  std::set<const void*> allocations;
  ASSERT_EQ(copies.sets.size(), sets.size());
  for (size_t i = 0; i < sets.size(); ++i) {
    ASSERT_EQ(copies.sets[i].size(), sets[i].size());
    for (size_t j = 0; j < sets[i].size(); ++j) {
      const auto& [name, original] = sets[i][j];
      const auto& [copied_name, copy] = copies.sets[i][j];
      EXPECT_EQ(name, copied_name);
      EXPECT_TRUE(at::equal(original, copy)) << name;
      EXPECT_EQ(original.scalar_type(), copy.scalar_type()) << name;
      if (name != "gaps") {
        EXPECT_EQ(original.strides(), copy.strides()) << name;
      }
      allocations.insert(copy.storage().data());
    }
  }
  EXPECT_EQ(allocations.size(), 1U);
}

TEST(CopyToHost, DoNotFollowTheOriginal) {
  const at::Tensor original = at::ones({3}).requires_grad_();
  const HostCopies copies = CopyToHost({{{"w", original}}});
  {
    const at::NoGradGuard no_grad;
    original.mutable_grad() = at::ones({3});
    at::Tensor(original.detach()).fill_(2);
  }
  EXPECT_TRUE(at::equal(copies.sets[0][0].second, at::ones({3})));
  EXPECT_FALSE(copies.sets[0][0].second.requires_grad());
}

// The tensors do not fit into one piece: each has a piece of its own or shares one.
TEST(CopyToHost, LargeOnesComeInPieces) {
  constexpr int64_t kKiB = 1024;
  NamedTensors tensors;
  for (const int64_t kib : {100, 100, 300, 60, 60}) {
    tensors.emplace_back(std::to_string(kib), at::zeros({kib * kKiB}, at::kByte));
    tensors.back().second.select(0, kib * kKiB - 1).fill_(kib % 256);
  }
  const HostCopies copies = CopyToHost({tensors}, 256 * kKiB);
  std::set<const void*> allocations;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& copy = copies.sets[0][i].second;
    EXPECT_EQ(copy.select(0, copy.numel() - 1).item<int64_t>(), copy.numel() / kKiB % 256);
    allocations.insert(copy.storage().data());
  }
  EXPECT_EQ(allocations.size(), 3U);
}

TEST(CopyToHost, OfNothing) {
  const HostCopies copies = CopyToHost({{}, {}});
  copies.wait();
  EXPECT_EQ(copies.sets.size(), 2U);
}

}  // namespace
}  // namespace dtrain::checkpoint
