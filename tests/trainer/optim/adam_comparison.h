// Compares a kernel of Adam with ATen's: weights and moments, and the copies of the weights. Weights are of odd sizes,
// more than one launch takes, some not aligned, some without a copy, and gradients have another memory format.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "models/layers.h"
#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

struct AdamWeights : torch::nn::Module {
  explicit AdamWeights(at::Device device) {
    for (const int64_t size : {1, 7, 8, 9, 1023, 2048, 4096, 4097, 20000}) Add(at::randn({size}).to(device));
    const at::Tensor shifted = at::randn({1025}).to(device).slice(0, 1);
    Add(shifted);
    Add(at::randn({6, 5, 3, 3}).to(device).contiguous(at::MemoryFormat::ChannelsLast));
    for (int i = 0; i < 70; ++i) Add(at::randn({11}).to(device));
    for (const int64_t inputs : {5, 8, 640}) {
      layers.push_back(register_module("layer" + std::to_string(inputs), models::Linear(inputs, 16)));
    }
    to(device);
  }

  void Add(const at::Tensor& weight) {
    weights.push_back(register_parameter("w" + std::to_string(weights.size()), weight));
  }

  std::vector<at::Tensor> weights;
  std::vector<models::Linear> layers;
};

inline std::vector<config::OptimizerConfig> AdamCases() {
  return {{.name = "adamw", .lr = {}, .weight_decay = 0.01, .decay_norm_and_bias = false},
          {.name = "adam",
           .lr = {},
           .adam_betas = {0.8, 0.98},
           .adam_eps = 1e-6,
           .weight_decay = 0.1,
           .decay_norm_and_bias = false},
          {.name = "fairseq_adam", .lr = {}, .weight_decay = 0.01, .decay_norm_and_bias = false}};
}

// `tolerance`: of a value relative to its size; 0: the same bits.
inline void CompareAdam(const config::OptimizerConfig& config, at::ScalarType copies, AdamKernel kernel,
                        at::Device device, double tolerance) {
  at::manual_seed(1);
  std::vector<std::shared_ptr<AdamWeights>> models;
  std::vector<std::unique_ptr<Optimizer>> adams;
  for (int i = 0; i < 2; ++i) {
    at::manual_seed(2);
    models.push_back(std::make_shared<AdamWeights>(device));
    std::vector<NamedTensor> parameters;
    for (const auto& item : models[i]->named_parameters()) parameters.emplace_back(item.key(), item.value());
    adams.push_back(MakeOptimizer(config, parameters));
  }
  const models::HalfWeights half(*models[1], copies);
  adams[1]->UseKernel(kernel, half);
  const at::Tensor factor = at::full({}, 0.3, at::TensorOptions(device).dtype(at::kFloat));
  adams[1]->MultiplyGradientsBy(factor);
  for (int step = 0; step < 4; ++step) {
    const auto wanted = models[0]->parameters(), result = models[1]->parameters();
    for (size_t i = 0; i < wanted.size(); ++i) {
      const at::Tensor gradient = at::randn(wanted[i].sizes()).to(device);  // contiguous
      wanted[i].mutable_grad() = at::empty_like(wanted[i]).copy_(gradient * factor);
      result[i].mutable_grad() = gradient;
    }
    const at::Tensor skips = at::full({}, step == 2 ? 1.0F : 0.0F, at::TensorOptions(device));
    const at::Tensor rate = at::full({}, 0.01 / (1 + step), at::TensorOptions(device).dtype(at::kFloat));
    for (const auto& adam : adams) adam->Step(rate, skips);
  }
  const auto expect_same = [&](const std::vector<NamedTensor>& wanted, const std::vector<NamedTensor>& result) {
    ASSERT_EQ(wanted.size(), result.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double distance = (result[i].second - wanted[i].second).abs().max().item<double>();
      EXPECT_LE(distance, tolerance * wanted[i].second.abs().max().item<double>()) << wanted[i].first;
    }
  };
  std::vector<NamedTensor> weights[2];
  for (int i = 0; i < 2; ++i) {
    for (const auto& item : models[i]->named_parameters()) weights[i].emplace_back(item.key(), item.value().detach());
  }
  expect_same(weights[0], weights[1]);
  expect_same(adams[0]->State(), adams[1]->State());
  for (const auto& layer : models[1]->layers) {
    const at::Tensor copy = half.PartOf(layer->weight);
    ASSERT_EQ(copy.defined(), copies != at::kFloat);
    if (!copy.defined()) continue;
    EXPECT_TRUE(at::equal(copy, layer->weight.detach().to(copies)));
  }
}

}  // namespace dtrain::optim
