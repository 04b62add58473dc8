// How the loss scale changes, and what a skipped step leaves unchanged. tests/interop compares with torch.amp.
#include "trainer/optim/parameter_update.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "models/layers.h"
#include "trainer/config/choices.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/precision.h"

namespace dtrain::optim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct OneWeight {
  explicit OneWeight(std::optional<LossScaler> scaler, double clip_norm = 0)
      : weight(at::ones({3, 2}).requires_grad_()),
        update(MakeOptimizer({.name = "sgd", .lr = {}, .momentum = 0, .weight_decay = 0}, {{"weight", weight}}),
               std::move(scaler), clip_norm, at::kCPU) {}

  // Runs one step; every element's gradient of the unscaled loss is `gradient`.
  void Step(double gradient, const std::optional<at::Tensor>& factor = {}, const std::optional<at::Tensor>& skip = {}) {
    weight.mutable_grad().reset();
    update.Scale((weight * gradient).sum()).backward();
    update.Apply({weight.grad()}, 1.0, factor, skip);
  }
  double value() const { return weight[0][0].item<double>(); }

  at::Tensor weight;
  ParameterUpdate update;
};

TEST(ParameterUpdate, GrowsAndBacksOff) {
  OneWeight one(LossScaler({.initial = 8, .growth_interval = 2}, at::kCPU));
  // Two finite steps double the scale; a step with infinities halves it and resets the count of finite steps.
  const std::vector<std::pair<double, double>> gradient_and_scale = {
      {0.25, 8}, {0.25, 16}, {kInfinity, 8}, {0.25, 8}, {kInfinity, 4}, {0.25, 4}, {0.25, 8}};
  for (const auto& [gradient, scale] : gradient_and_scale) {
    const double before = one.value();
    one.Step(gradient);
    EXPECT_EQ(one.update.loss_scale(), scale);
    EXPECT_EQ(one.update.skipped().item<double>(), gradient == kInfinity ? 1 : 0);
    EXPECT_EQ(one.value(), gradient == kInfinity ? before : before - 0.25);
  }
}

TEST(ParameterUpdate, WritesTheHalfCopiesOfWeights) {
  for (const config::OptimizerFacts& facts : config::Optimizers()) {
    SCOPED_TRACE(facts.name);
    models::Linear layer(4, 3);
    config::OptimizerConfig config;
    config.name = facts.name;
    ParameterUpdate update(MakeOptimizer(config, {{"weight", layer->weight}, {"bias", layer->bias}}),
                           LossScaler({.initial = 8}, at::kCPU), /*clip_norm=*/0, at::kCPU,
                           models::HalfWeights(*layer, at::kBFloat16));
    const auto expect_right = [&] {
      const at::NoGradGuard no_grad;
      layer->bias.zero_();
      const AutocastScope autocast(at::kCPU, PrecisionNamed("bf16"));
      EXPECT_TRUE(at::equal(layer(at::eye(4)).t(), layer->weight.to(at::kBFloat16)));
    };
    for (const double gradient : {0.5, kInfinity, 2.0}) {
      const at::Tensor before = layer->weight.detach().clone();
      for (at::Tensor& parameter : layer->parameters()) parameter.mutable_grad() = at::full_like(parameter, gradient);
      update.Apply({layer->weight.grad(), layer->bias.grad()}, 0.1);
      EXPECT_EQ(at::equal(before, layer->weight), gradient == kInfinity);
      expect_right();
    }
    layer->weight.mutable_grad().reset();  // frozen from now on
    layer->weight.set_data(at::randn({3, 4}));
    update.WeightsChanged();
    expect_right();
  }
}

TEST(ParameterUpdate, AStaticScaleStays) {
  OneWeight one(LossScaler({.dynamic = false, .initial = 1000}, at::kCPU));
  one.Step(0.25);
  EXPECT_DOUBLE_EQ(one.value(), 0.75);
  one.Step(std::nan(""));
  EXPECT_DOUBLE_EQ(one.value(), 0.75);
  EXPECT_EQ(one.update.loss_scale(), 1000);
}

TEST(ParameterUpdate, SkipsWithoutAScalerAndCountsInARow) {
  OneWeight one(std::nullopt);
  EXPECT_FALSE(one.update.loss_scale());
  const at::Tensor skipped =
      one.update.skipped();  // for good: a recorded step writes to the same memory at each replay
  const std::vector<std::pair<double, int64_t>> gradient_and_count = {
      {kInfinity, 1}, {-kInfinity, 2}, {0.5, 0}, {std::nan(""), 1}};
  for (const auto& [gradient, count] : gradient_and_count) {
    one.Step(gradient);
    EXPECT_EQ(one.update.skipped_in_a_row(), count);
    EXPECT_EQ(skipped.item<double>(), count > 0 ? 1 : 0);
  }
  EXPECT_EQ(one.value(), 0.5);
}

// The factor is multiplied in while unscaling, while clipping, with both or on its own; 0 skips the step.
TEST(ParameterUpdate, MultipliesByTheRemainingFactor) {
  for (const bool scales : {false, true}) {
    for (const double clip : {0.0, 1.0, 100.0}) {
      const auto scaler =
          scales ? std::optional(LossScaler({.dynamic = false, .initial = 512}, at::kCPU)) : std::nullopt;
      OneWeight one(scaler, clip);
      one.Step(3, at::full({}, 0.5f));
      EXPECT_NEAR(one.update.gradient_norm(), 1.5 * std::sqrt(6), 1e-5);
      EXPECT_NEAR(one.value(), clip == 1 ? 1 - 1 / std::sqrt(6) : 1 - 1.5, 1e-5) << scales << " " << clip;
      const double before = one.value();
      one.update.Apply({one.weight.grad()}, 1.0, at::zeros({}));
      EXPECT_EQ(one.value(), before);
      EXPECT_EQ(one.update.skipped().item<double>(), 1);
      EXPECT_EQ(one.update.not_finite().item<double>(), 0);
    }
  }
}

// A spike of the loss is no overflow: the scale grows as after any finite step, and the count of steps in a row rests.
TEST(ParameterUpdate, SkipsWhatItIsToldTo) {
  OneWeight one(LossScaler({.initial = 8, .growth_interval = 2}, at::kCPU));
  for (const double skip : {1.0, 0.0}) {
    const double before = one.value();
    one.Step(0.25, std::nullopt, at::full({}, skip, at::kFloat));
    EXPECT_EQ(one.update.skipped().item<double>(), skip);
    EXPECT_EQ(one.update.not_finite().item<double>(), 0);
    EXPECT_EQ(one.update.skipped_in_a_row(), 0);
    EXPECT_EQ(one.value(), skip == 1 ? before : before - 0.25);
  }
  EXPECT_EQ(one.update.loss_scale(), 16);
}

// A step that is skipped because its factor is 0 had nothing to learn: it changes neither the scale nor the number of
// steps in a row that were not finite.
TEST(ParameterUpdate, AStepWithoutWeightSaysNothing) {
  OneWeight one(LossScaler({.initial = 16, .growth_interval = 2}, at::kCPU));
  one.Step(kInfinity);
  one.Step(3, at::zeros({}));
  EXPECT_EQ(one.update.loss_scale(), 8);
  EXPECT_EQ(one.update.skipped_in_a_row(), 1);
}

TEST(ParameterUpdate, StateHoldsTheScalerAndTheCount) {
  OneWeight one(LossScaler({.initial = 8, .growth_interval = 2}, at::kCPU));
  one.Step(kInfinity);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : one.update.State())
    names.push_back(name + "=" + std::to_string(tensor.item<double>()));
  EXPECT_EQ(names, (std::vector<std::string>{"scaler.scale=4.000000", "scaler.growth_tracker=0.000000",
                                             "skipped_in_a_row=1.000000"}));
  const OneWeight fixed(LossScaler({.dynamic = false, .initial = 8}, at::kCPU));
  EXPECT_EQ(fixed.update.State().size(), 1);  // the scale is the flag's
}

}  // namespace
}  // namespace dtrain::optim
