#include "trainer/optim/weight_average.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/step_operators.h"

namespace dtrain::optim {
namespace {

struct Weights {
  at::Tensor weight = at::full({2, 3}, 1.0).requires_grad_();
  at::Tensor mean = at::full({3}, 10.0);
  at::Tensor counter = at::zeros({}, at::kLong);

  std::vector<NamedTensor> State() const { return {{"weight", weight}, {"mean", mean}, {"counter", counter}}; }
  void Become(double number) {
    at::NoGradGuard no_grad;
    weight.fill_(number);
    mean.fill_(10 * number);
    counter.add_(1);
  }
};

TEST(UpdateDecay, RisesToWhatWasAskedFor) {
  EXPECT_DOUBLE_EQ(UpdateDecay({.decay = 0.9999}, 1), 2.0 / 11);
  EXPECT_DOUBLE_EQ(UpdateDecay({.decay = 0.9999}, 90), 0.91);
  EXPECT_DOUBLE_EQ(UpdateDecay({.decay = 0.9999}, 89'989), 89'990.0 / 89'999);
  EXPECT_DOUBLE_EQ(UpdateDecay({.decay = 0.9999}, 90'000), 0.9999);
  EXPECT_DOUBLE_EQ(UpdateDecay({.decay = 0.1}, 1), 0.1);
}

// NVIDIA's EMA has min(mu, (1 + step) / (10 + step)), where its first step is 0.
TEST(UpdateDecay, IsNvidias) {
  for (const int step : {0, 1, 89, 1'000'000}) {
    EXPECT_DOUBLE_EQ(UpdateDecay({.decay = 0.9999, .start = "nvidia"}, step + 1),
                     std::min(0.9999, (1.0 + step) / (10 + step)));
  }
}

// torchvision's train.py resets the count of updates after each one in the warmup, and the first of a count copies.
TEST(UpdateDecay, OfTorchvisionCopiesUntilTheWarmupHasEnded) {
  for (const int64_t warmup : {0, 5, 6, 7}) {
    const WeightAverageOptions options{.decay = 0.9, .every = 3, .start = "torchvision", .warmup = warmup};
    int updates = 0;
    for (int64_t done = 3; done <= 30; done += 3) {
      EXPECT_EQ(UpdateDecay(options, done), updates == 0 ? 0 : 0.9) << warmup << " " << done;
      updates = done - 1 < warmup ? 0 : updates + 1;
    }
  }
}

TEST(WeightAverage, FollowsParametersAndStatisticsAndCopiesCounters) {
  Weights weights;
  WeightAverage average(weights.State(), {.decay = 0.5, .every = 2});
  weights.Become(2);
  average.Update(0.75);
  EXPECT_FLOAT_EQ(average.tensors()[0].second[0][0].item<float>(), 1.25F);
  EXPECT_FLOAT_EQ(average.tensors()[1].second[0].item<float>(), 12.5F);
  EXPECT_EQ(average.tensors()[2].second.item<int64_t>(), 1);
  EXPECT_FALSE(average.tensors()[0].second.requires_grad());
  average.Update(0);
  EXPECT_TRUE(at::equal(average.tensors()[0].second, weights.weight));
}

TEST(WeightAverage, DoesNotWaitForTheDevice) {
  const Weights weights;
  WeightAverage average(weights.State(), {.decay = 0.5});
  const StepOperators operators;
  average.AfterStep(1);
  EXPECT_EQ(operators.forbidden(), std::set<std::string>{});
}

TEST(WeightAverage, IsUpdatedEverySoManySteps) {
  Weights weights;
  WeightAverage average(weights.State(), {.decay = 0.5, .every = 2});
  weights.Become(2);
  const auto value = [&average] { return average.tensors()[0].second[0][0].item<float>(); };
  average.AfterStep(1);
  EXPECT_EQ(value(), 1);
  average.AfterStep(2);  // the first update keeps 2/11 of the average
  EXPECT_FLOAT_EQ(value(), 2 - 2.0F / 11);
  average.AfterStep(20);  // the tenth: (1 + 10) / (10 + 10) would be more than 0.5
  EXPECT_FLOAT_EQ(value(), 2 - 1.0F / 11);
}

// The model computes with the average inside of the scope, and afterwards continues to train with its own weights.
TEST(WeightAverage, AScopeLendsItToTheModel) {
  Weights weights;
  WeightAverage average(weights.State(), {.decay = 0.5, .every = 2});
  weights.Become(2);
  const void* memory = weights.weight.data_ptr();
  {
    const WeightAverage::Scope scope(average);
    EXPECT_EQ(weights.weight[0][0].item<float>(), 1);
    EXPECT_EQ(weights.mean[0].item<float>(), 10);
    EXPECT_EQ(average.tensors()[0].second[0][0].item<float>(), 2);
  }
  EXPECT_EQ(weights.weight.data_ptr(), memory);
  EXPECT_EQ(weights.weight[0][0].item<float>(), 2);
  EXPECT_TRUE(weights.weight.requires_grad() && weights.weight.is_leaf());
  weights.weight.sum().backward();
  EXPECT_EQ(weights.weight.grad()[0][0].item<float>(), 1);
  average.Update(0.5);
  EXPECT_EQ(average.tensors()[0].second[0][0].item<float>(), 1.5F);
}

}  // namespace
}  // namespace dtrain::optim
