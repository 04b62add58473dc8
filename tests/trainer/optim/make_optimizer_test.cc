// What tests/interop, which compares trainings with timm's, torch's and fairseq's optimizers, does not see.
#include "trainer/optim/make_optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trainer/config/choices.h"
#include "trainer/config/config.h"
#include "trainer/errors.h"

namespace dtrain::optim {
namespace {

constexpr double kDecay = 0.05;

std::vector<NamedTensor> SmallParameters() {
  at::manual_seed(3);
  std::vector<NamedTensor> parameters = {{"conv.weight", at::randn({8, 4, 3, 3})},
                                         {"zero.weight", at::zeros({4, 4})},
                                         {"bn.weight", at::ones({8})},
                                         {"fc.bias", at::zeros({10})}};
  for (auto& [name, tensor] : parameters) tensor.requires_grad_();
  return parameters;
}

config::OptimizerConfig ConfigOf(const std::string& name, bool decay_all) {
  config::OptimizerConfig config;
  config.name = name;
  config.momentum = 0.8;
  config.lars_trust = 0.02;
  config.weight_decay = kDecay;
  config.decay_norm_and_bias = decay_all;
  return config;
}

// A tensor without a norm has no ratio of norms, and one of a single dimension has one if it decays.
TEST(MakeOptimizer, AdaptsWhatHasANormAndDecays) {
  constexpr double kRate = 0.1;
  for (const bool decay_all : {true, false}) {
    const std::vector<NamedTensor> parameters = SmallParameters();
    const at::Tensor zero = parameters[1].second, norm = parameters[2].second, before = norm.detach().clone();
    for (auto [name, tensor] : parameters) tensor.mutable_grad() = at::randn_like(tensor.detach());
    MakeOptimizer(ConfigOf("lars", decay_all), parameters)->Step(kRate);
    EXPECT_TRUE(at::allclose(zero, -kRate * zero.grad()));
    at::Tensor step = norm.grad();
    if (decay_all) {
      const at::Tensor size = before.norm();
      step = (step + kDecay * before) * (0.02 * size / (norm.grad().norm() + kDecay * size));
    }
    EXPECT_TRUE(at::allclose(norm, before - kRate * step)) << decay_all;
  }
  const std::vector<NamedTensor> parameters = SmallParameters();
  const at::Tensor zero = parameters[1].second;
  for (auto [name, tensor] : parameters) tensor.mutable_grad() = at::ones_like(tensor.detach());
  MakeOptimizer(ConfigOf("lamb", true), parameters)->Step(kRate);
  EXPECT_TRUE(at::allclose(zero, at::full_like(zero, -kRate)));
}

// `copies` tensors like the parameters, and `scalars`, are the state of each optimizer.
TEST(MakeOptimizer, SaysWhatItKeeps) {
  const std::vector<NamedTensor> parameters = SmallParameters();
  const int64_t weights = 4 * (8 * 4 * 3 * 3 + 16 + 8 + 10);
  for (const auto& [name, copies, scalars] :
       std::vector<std::tuple<std::string, int64_t, int64_t>>{{"sgd", 1, 0},
                                                              {"adam", 2, 1},
                                                              {"adamw", 2, 1},
                                                              {"fairseq_adam", 2, 1},
                                                              {"lars", 1, 0},
                                                              {"lamb", 2, 1},
                                                              {"rmsprop_tf", 2, 0},
                                                              {"rmsprop", 2, 0}}) {
    EXPECT_EQ(OptimizerStateBytes(ConfigOf(name, true), parameters), copies * weights + 4 * scalars) << name;
  }
  for (const config::OptimizerFacts& choice : config::Optimizers()) {
    EXPECT_NO_THROW(MakeOptimizer(ConfigOf(choice.name, true), parameters)) << choice.name;
  }
  config::OptimizerConfig without_momentum = ConfigOf("sgd", true);
  without_momentum.momentum = 0;
  EXPECT_EQ(OptimizerStateBytes(without_momentum, parameters), 0);
  EXPECT_THROW(MakeOptimizer(ConfigOf("sdg", true), parameters), UsageError);
}

}  // namespace
}  // namespace dtrain::optim
