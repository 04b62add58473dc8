// Compares LARS, LAMB, TensorFlow's RMSprop and fairseq's Adam with their formulas for one tensor at a time.
// tests/interop compares whole trainings with timm and with fairseq's formulas.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "trainer/config/choices.h"
#include "trainer/config/config.h"
#include "trainer/errors.h"
#include "trainer/optim/make_optimizer.h"

namespace dtrain::optim {
namespace {

constexpr double kDecay = 0.05;
constexpr int kSteps = 8;
constexpr double kFairseqEpsilon = 0.1;  // large, so that it matters where it is added

std::vector<NamedTensor> SomeParameters() {
  at::manual_seed(3);
  std::vector<NamedTensor> parameters = {{"conv.weight", at::randn({8, 4, 3, 3})},
                                         {"zero.weight", at::zeros({4, 4})},
                                         {"bn.weight", at::ones({8})},
                                         {"fc.bias", at::zeros({10})}};
  for (auto& [name, tensor] : parameters) tensor.requires_grad_();
  return parameters;
}

// The state of one parameter, and the rule that computes its next value from its gradient; all in double.
struct Memory {
  at::Tensor first, second;
  int step = 0;
};
using Rule = std::function<at::Tensor(const at::Tensor& w, const at::Tensor& g, double decay, bool adapted, double rate,
                                      Memory& memory)>;

double Trust(const at::Tensor& w, const at::Tensor& step, double ratio) {
  return w.norm().item<double>() > 0 && step.norm().item<double>() > 0 ? ratio : 1;
}

at::Tensor LarsRule(const at::Tensor& w, const at::Tensor& g, double decay, bool adapted, double rate, Memory& memory) {
  const double weights = w.norm().item<double>(), gradients = g.norm().item<double>();
  const double ratio = adapted ? Trust(w, g, 0.02 * weights / (gradients + decay * weights + 1e-8)) : 1;
  const at::Tensor scaled = (g + decay * w) * ratio;
  memory.first = memory.step++ == 0 ? scaled : memory.first * 0.8 + scaled;
  return w - rate * memory.first;
}

// The rates begin above the ratios and end below them.
at::Tensor LarcRule(const at::Tensor& w, const at::Tensor& g, double decay, bool adapted, double rate, Memory& memory) {
  const double weights = w.norm().item<double>(), gradients = g.norm().item<double>();
  const double ratio = Trust(w, g, 0.02 * weights / (gradients + decay * weights + 1e-8));
  const at::Tensor scaled = (g + decay * w) * (adapted ? std::min(1.0, ratio / rate) : 1);
  memory.first = memory.step++ == 0 ? scaled : memory.first * 0.8 + scaled;
  return w - rate * memory.first;
}

at::Tensor LambRule(const at::Tensor& w, const at::Tensor& g, double decay, bool adapted, double rate, Memory& memory) {
  if (memory.step++ == 0) memory.first = memory.second = at::zeros_like(w);
  memory.first = 0.8 * memory.first + 0.2 * g;
  memory.second = 0.98 * memory.second + 0.02 * g * g;
  const at::Tensor root = (memory.second / (1 - std::pow(0.98, memory.step))).sqrt();
  at::Tensor update = memory.first / (1 - std::pow(0.8, memory.step)) / (root + 1e-6) + decay * w;
  if (adapted) update = update * Trust(w, update, w.norm().item<double>() / update.norm().item<double>());
  return w - rate * update;
}

at::Tensor RmspropRule(const at::Tensor& w, const at::Tensor& g, double decay, bool, double rate, Memory& memory) {
  if (memory.step++ == 0) {
    memory.first = at::zeros_like(w);
    memory.second = at::ones_like(w);
  }
  const at::Tensor all = g + decay * w;
  memory.second = 0.7 * memory.second + 0.3 * all * all;
  memory.first = 0.8 * memory.first + rate * all / (memory.second + 0.01).sqrt();
  return w - memory.first;
}

at::Tensor FairseqAdamRule(const at::Tensor& w, const at::Tensor& g, double decay, bool, double rate, Memory& memory) {
  if (memory.step++ == 0) memory.first = memory.second = at::zeros_like(w);
  memory.first = 0.8 * memory.first + 0.2 * g;
  memory.second = 0.98 * memory.second + 0.02 * g * g;
  const double size = rate * std::sqrt(1 - std::pow(0.98, memory.step)) / (1 - std::pow(0.8, memory.step));
  return w - rate * decay * w - size * memory.first / (memory.second.sqrt() + kFairseqEpsilon);
}

struct OwnRule {
  const char* name;
  Rule rule;
  bool clip = false;
};

config::OptimizerConfig ConfigOf(const std::string& name, bool decay_all) {
  config::OptimizerConfig config;
  config.name = name;
  config.momentum = 0.8;
  config.adam_betas = {0.8, 0.98};
  config.adam_eps = name == "fairseq_adam" ? kFairseqEpsilon : 1e-6;
  config.lars_trust = 0.02;
  config.rmsprop_alpha = 0.7;
  config.rmsprop_eps = 0.01;
  config.weight_decay = kDecay;
  config.decay_norm_and_bias = decay_all;
  return config;
}

class TimmOptimizers : public testing::TestWithParam<std::tuple<OwnRule, bool>> {};

TEST_P(TimmOptimizers, FollowTheirFormula) {
  const auto& [named, decay_all] = GetParam();
  const std::vector<NamedTensor> parameters = SomeParameters();
  config::OptimizerConfig config = ConfigOf(named.name, decay_all);
  config.lars_clip = named.clip;
  const auto optimizer = MakeOptimizer(config, parameters);
  std::vector<at::Tensor> expected;
  std::vector<Memory> memories(parameters.size());
  for (const auto& [name, tensor] : parameters) expected.push_back(tensor.detach().to(at::kDouble));
  for (int step = 0; step < kSteps; ++step) {
    const double rate = 0.1 / (1 + step);
    for (size_t i = 0; i < parameters.size(); ++i) {
      at::Tensor parameter = parameters[i].second;
      const at::Tensor gradient = at::randn_like(parameter.detach());
      parameter.mutable_grad() = gradient;
      const bool plain = parameter.dim() <= 1 && !decay_all;
      expected[i] = named.rule(expected[i], gradient.to(at::kDouble), plain ? 0 : kDecay, !plain, rate, memories[i]);
    }
    optimizer->Step(rate, at::zeros({}));
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(at::allclose(parameters[i].second.to(at::kDouble), expected[i], 1e-5, 1e-6))
          << parameters[i].first << " after step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TimmOptimizers,
                         testing::Combine(testing::Values(OwnRule{"lars", LarsRule}, OwnRule{"lars", LarcRule, true},
                                                          OwnRule{"lamb", LambRule}, OwnRule{"rmsprop_tf", RmspropRule},
                                                          OwnRule{"fairseq_adam", FairseqAdamRule}),
                                          testing::Bool()),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param).name) +
                                  (std::get<0>(tested.param).clip ? "_clipped" : "") +
                                  (std::get<1>(tested.param) ? "_all" : "_weights_only");
                         });

// `copies` tensors like the parameters, and `scalars`, are the state of each optimizer.
TEST(MakeOptimizer, SaysWhatItKeeps) {
  const std::vector<NamedTensor> parameters = SomeParameters();
  const int64_t weights = 4 * (8 * 4 * 3 * 3 + 16 + 8 + 10);
  for (const auto& [name, copies, scalars] :
       std::vector<std::tuple<std::string, int64_t, int64_t>>{{"sgd", 1, 0},
                                                              {"adam", 2, 1},
                                                              {"adamw", 2, 1},
                                                              {"fairseq_adam", 2, 1},
                                                              {"lars", 1, 0},
                                                              {"lamb", 2, 1},
                                                              {"rmsprop_tf", 2, 0}}) {
    EXPECT_EQ(OptimizerStateBytes(ConfigOf(name, true), parameters), copies * weights + 4 * scalars) << name;
  }
  for (const Choice& choice : config::Optimizers()) {
    EXPECT_NO_THROW(MakeOptimizer(ConfigOf(choice.name, true), parameters)) << choice.name;
  }
  config::OptimizerConfig without_momentum = ConfigOf("sgd", true);
  without_momentum.momentum = 0;
  EXPECT_EQ(OptimizerStateBytes(without_momentum, parameters), 0);
  EXPECT_THROW(MakeOptimizer(ConfigOf("sdg", true), parameters), UsageError);
}

}  // namespace
}  // namespace dtrain::optim
