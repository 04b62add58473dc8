#include "models/dropout.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace dtrain::models {
namespace {

constexpr int64_t kElements = 300'001;

TEST(Dropout, KeepsTheMeanAndAsManyElementsAsItSays) {
  for (const double probability : {0.1, 0.5, 0.9}) {
    at::manual_seed(5);
    const at::Tensor y = Dropout(at::ones(kElements), probability, /*is_training=*/true);
    EXPECT_NEAR(y.eq(0).to(at::kDouble).mean().item<double>(), probability, 0.004);
    EXPECT_NEAR(y.max().item<double>(), 1 / (1 - probability), 1e-5);
    // Neighbours, and what two calls draw, are independent.
    const at::Tensor dropped = y.eq(0), others = Dropout(at::ones(kElements), probability, true).eq(0);
    const auto both = [&](const at::Tensor& a, const at::Tensor& b) {
      return a.logical_and(b).to(at::kDouble).mean().item<double>();
    };
    EXPECT_NEAR(both(dropped, others), probability * probability, 0.004);
    for (const int64_t distance : {1, 2, 64, 768}) {
      EXPECT_NEAR(both(dropped.slice(0, distance), dropped.slice(0, 0, -distance)), probability * probability, 0.004);
    }
  }
}

TEST(Dropout, DrawsTheSameNumbersForTheGradientAndForAnyNumberOfThreads) {
  const at::Tensor x = at::randn({1000, 301}).t().requires_grad_();
  const int threads = at::get_num_threads();
  at::Tensor first;
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    at::manual_seed(7);
    const at::Tensor y = Dropout(x, 0.3, true);
    x.mutable_grad() = at::Tensor();
    y.sum().backward();
    EXPECT_TRUE((x.detach() * x.grad()).equal(y.detach()));
    if (!first.defined()) first = y.detach();
    EXPECT_TRUE(first.equal(y.detach()));
  }
  at::set_num_threads(threads);
}

TEST(Dropout, LeavesAloneWhatIsNotDropped) {
  const at::Tensor x = at::randn({4, 5});
  EXPECT_TRUE(Dropout(x, 0.3, /*is_training=*/false).is_same(x));
  EXPECT_TRUE(Dropout(x, 0, true).is_same(x));
  EXPECT_EQ(Dropout(x, 1, true).count_nonzero().item<int64_t>(), 0);
  EXPECT_EQ(Dropout(x.to(at::kBFloat16), 0.3, true).scalar_type(), at::kBFloat16);
  EXPECT_EQ(Dropout(at::empty({0, 5}), 0.3, true).numel(), 0);
}

}  // namespace
}  // namespace dtrain::models
