// Twenty steps beside torch::optim::SGD and torch::nn::utils::clip_grad_norm_.
#include "trainer/optim/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/sgd.h>

#include "trainer/optim/gradient_clip.h"

namespace dtrain::optim {
namespace {

struct Pair {
  std::vector<NamedTensor> ours;
  std::vector<at::Tensor> theirs;
};

Pair EqualParameters() {
  at::manual_seed(3);
  Pair pair;
  for (const auto& [name, shape] : std::vector<std::pair<std::string, std::vector<int64_t>>>{
           {"conv.weight", {8, 4, 3, 3}}, {"bn.weight", {8}}, {"fc.weight", {10, 8}}, {"fc.bias", {10}}}) {
    const at::Tensor value = at::randn(shape);
    at::Tensor own = value.clone();
    if (own.dim() == 4) own = own.contiguous(at::MemoryFormat::ChannelsLast);
    pair.ours.emplace_back(name, own.requires_grad_());
    pair.theirs.push_back(value.clone().requires_grad_());
  }
  return pair;
}

void SetEqualGradients(Pair& pair) {
  for (size_t i = 0; i < pair.theirs.size(); ++i) {
    const at::Tensor gradient = at::randn_like(pair.theirs[i]);
    pair.theirs[i].mutable_grad() = gradient;
    at::Tensor& own = pair.ours[i].second.mutable_grad();
    own = at::empty_like(pair.ours[i].second).copy_(gradient);
  }
}

void ExpectEqual(const Pair& pair) {
  for (size_t i = 0; i < pair.theirs.size(); ++i) {
    EXPECT_TRUE(at::allclose(pair.ours[i].second, pair.theirs[i], 1e-5, 1e-6)) << pair.ours[i].first;
  }
}

class SgdSteps : public testing::TestWithParam<SgdOptions> {};

TEST_P(SgdSteps, AreTorchs) {
  const SgdOptions options = GetParam();
  Pair pair = EqualParameters();
  Sgd ours(pair.ours, options);
  const auto torch_options = [&](double weight_decay) {
    return std::make_unique<torch::optim::SGDOptions>(
        torch::optim::SGDOptions(0.1).momentum(options.momentum).nesterov(options.nesterov).weight_decay(weight_decay));
  };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<at::Tensor>{pair.theirs[0], pair.theirs[2]}, torch_options(options.weight_decay));
  groups.emplace_back(std::vector<at::Tensor>{pair.theirs[1], pair.theirs[3]},
                      torch_options(options.decay_norm_and_bias ? options.weight_decay : 0));
  torch::optim::SGD theirs(groups, torch::optim::SGDOptions(0.1));
  for (int step = 0; step < 20; ++step) {
    SetEqualGradients(pair);
    const double learning_rate = 0.1 / (1 + step);
    for (auto& group : theirs.param_groups()) static_cast<torch::optim::SGDOptions&>(group.options()).lr(learning_rate);
    ours.Step(learning_rate);
    theirs.step();
    ExpectEqual(pair);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SgdSteps,
    testing::Values(SgdOptions{.momentum = 0.9, .nesterov = true, .weight_decay = 1e-2},
                    SgdOptions{.momentum = 0.9, .nesterov = false, .weight_decay = 1e-2, .decay_norm_and_bias = false},
                    SgdOptions{.momentum = 0, .nesterov = false, .weight_decay = 0}));

TEST(Sgd, StateMovesToAnotherInstance) {
  Pair first = EqualParameters(), second = EqualParameters();
  Sgd a(first.ours, {}), b(second.ours, {});
  SetEqualGradients(first);
  a.Step(0.1);
  b.LoadState(a.State());
  for (size_t i = 0; i < a.State().size(); ++i) EXPECT_TRUE(at::equal(a.State()[i].second, b.State()[i].second));
  EXPECT_THROW(b.LoadState({}), std::invalid_argument);
}

TEST(Sgd, L2TermCountsWhatDecays) {
  const std::vector<NamedTensor> parameters = {{"w", at::full({2, 2}, 3.0)}, {"b", at::full({4}, 5.0)}};
  EXPECT_DOUBLE_EQ(Sgd(parameters, {.weight_decay = 0.1}).L2Term(), 0.05 * (36 + 100));
  EXPECT_DOUBLE_EQ(Sgd(parameters, {.weight_decay = 0.1, .decay_norm_and_bias = false}).L2Term(), 0.05 * 36);
}

TEST(GradientClip, IsTorchs) {
  for (const double max_norm : {0.5, 1e6}) {
    Pair pair = EqualParameters();
    SetEqualGradients(pair);
    std::vector<at::Tensor> gradients;
    for (const auto& [name, parameter] : pair.ours) gradients.push_back(parameter.grad());
    const at::Tensor norm = GradientNorm(gradients);
    ClipToNorm(gradients, norm, max_norm);
    const double torch_norm = torch::nn::utils::clip_grad_norm_(pair.theirs, max_norm);
    EXPECT_NEAR(norm.item<double>(), torch_norm, 1e-4);
    for (size_t i = 0; i < gradients.size(); ++i) EXPECT_TRUE(at::allclose(gradients[i], pair.theirs[i].grad()));
  }
}

}  // namespace
}  // namespace dtrain::optim
