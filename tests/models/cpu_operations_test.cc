#include "models/cpu_operations.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace dtrain::models {
namespace {

using Multiplication = std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>;

// Returns the result and the gradients of x, weight and bias (if there is one).
std::vector<at::Tensor> ResultsOf(const Multiplication& multiply, at::IntArrayRef x_sizes, int64_t out, bool has_bias,
                                  at::ScalarType type = at::kFloat) {
  at::manual_seed(3);
  const auto parameter = [&](at::IntArrayRef sizes) { return at::randn(sizes).to(type).requires_grad_(); };
  const at::Tensor x = parameter(x_sizes), weight = parameter({out, x_sizes.back()});
  const at::Tensor bias = has_bias ? parameter({out}) : at::Tensor();
  const at::Tensor y = multiply(x, weight, bias);
  y.backward(at::randn_like(y));
  std::vector<at::Tensor> results = {y.detach(), x.grad(), weight.grad()};
  if (has_bias) results.push_back(bias.grad());
  return results;
}

at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::linear(x, weight, bias);
}

// Sizes of every library: oneDNN takes the large ones, and copies either factor of the weight's gradient.
TEST(Product, HasTheResultsAndGradientsOfLinear) {
  for (const auto& [x_sizes, out] : std::vector<std::pair<std::vector<int64_t>, int64_t>>{{{3, 5}, 7},
                                                                                          {{500, 96}, 384},
                                                                                          {{2, 9, 300}, 700},
                                                                                          {{2049, 40}, 160},
                                                                                          {{2, 33, 7, 64}, 129},
                                                                                          {{150, 64}, 3001}}) {
    for (const bool has_bias : {false, true}) {
      SCOPED_TRACE(testing::Message() << at::IntArrayRef(x_sizes) << " to " << out << (has_bias ? " with bias" : ""));
      const auto ours = ResultsOf(Product, x_sizes, out, has_bias), theirs = ResultsOf(Linear, x_sizes, out, has_bias);
      const auto again = ResultsOf(Product, x_sizes, out, has_bias);
      ASSERT_EQ(ours.size(), theirs.size());
      for (size_t i = 0; i < ours.size(); ++i) {
        EXPECT_EQ(ours[i].sizes(), theirs[i].sizes());
        EXPECT_LE((ours[i] - theirs[i]).abs().max().item<double>(), 2e-6 * theirs[i].abs().max().item<double>()) << i;
        EXPECT_TRUE(ours[i].equal(again[i])) << i;
      }
    }
  }
}

TEST(Product, LeavesOtherTypesToAten) {
  const auto ours = ResultsOf(Product, {200, 128}, 256, true, at::kDouble);
  const auto theirs = ResultsOf(Linear, {200, 128}, 256, true, at::kDouble);
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(ours[i].equal(theirs[i]));
}

TEST(Product, GivesNoGradientToWhatNeedsNone) {
  const at::Tensor x = at::randn({500, 96}), weight = at::randn({384, 96}).requires_grad_();
  Product(x, weight, {}).sum().backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(weight.grad().defined());
  EXPECT_FALSE(Product(x, weight.detach(), at::randn(384)).requires_grad());
}

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
