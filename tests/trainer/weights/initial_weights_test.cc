#include "trainer/weights/initial_weights.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::loop {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Small : torch::nn::Module {
  Small()
      : norm(register_module("norm", torch::nn::BatchNorm1d(2))), fc(register_module("fc", torch::nn::Linear(2, 3))) {}
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear fc;
};

checkpoint::NamedTensors Weights(const std::string& prefix) {
  return {{prefix + "norm.weight", at::full({2}, 2.0)},       {prefix + "norm.bias", at::full({2}, 3.0)},
          {prefix + "norm.running_mean", at::full({2}, 4.0)}, {prefix + "norm.running_var", at::full({2}, 5.0)},
          {prefix + "fc.weight", at::full({3, 2}, 6.0)},      {prefix + "fc.bias", at::full({3}, 7.0)}};
}

config::ModelConfig Config(bool strict) {
  config::ModelConfig config;
  config.init_weights = "weights.safetensors";
  config.strict_weights = strict;
  return config;
}

TEST(TakeOffWrappers, TakesOffWhatStandsInFrontOfAllNames) {
  for (const std::string prefix : {"module.", "_orig_mod.", "model.", "module._orig_mod.", "_orig_mod.module.model."}) {
    auto weights = Weights(prefix);
    EXPECT_EQ(TakeOffWrappers(weights).size(), prefix.size()) << prefix;
    EXPECT_EQ(weights[0].first, "norm.weight") << prefix;
  }
}

TEST(TakeOffWrappers, LeavesNamesOfTheirOwn) {
  auto weights = Weights("module.");
  weights.emplace_back("head.weight", at::zeros({1}));
  EXPECT_EQ(TakeOffWrappers(weights), "");
  EXPECT_EQ(weights[0].first, "module.norm.weight");
  auto plain = Weights("");
  EXPECT_EQ(TakeOffWrappers(plain), "");
}

TEST(TakeOffWrappers, ACounterOfTheWrapperIsNoName) {
  auto weights = Weights("module.");
  weights.emplace_back("n_averaged", at::zeros({}));
  EXPECT_EQ(TakeOffWrappers(weights), "module.");
  EXPECT_EQ(weights.back().first, "n_averaged");
}

TEST(ApplyInitialWeights, ACounterMayBeAVectorOfOne) {
  Small module;
  auto weights = Weights("");
  weights.emplace_back("norm.num_batches_tracked", at::full({1}, 9, at::kLong));
  ApplyInitialWeights(weights, Config(/*strict=*/true), module);
  EXPECT_EQ(module.norm->num_batches_tracked.item<int64_t>(), 9);
  EXPECT_EQ(module.norm->num_batches_tracked.dim(), 0);
  EXPECT_EQ(module.fc->bias[0].item<float>(), 7);
}

TEST(ApplyInitialWeights, WeightsOfWhichNothingFitsAreRefused) {
  for (const bool strict : {true, false}) {
    Small module;
    auto weights = Weights("other.");
    weights.emplace_back("norm.num_batches_tracked", at::full({}, 9, at::kLong));
    EXPECT_THAT(MessageOf([&] { ApplyInitialWeights(weights, Config(strict), module); }),
                AllOf(HasSubstr("nothing in weights.safetensors fits"), HasSubstr("other.fc.weight")));
  }
}

TEST(ApplyInitialWeights, WhatFitsIsTakenWhereThatWasAsked) {
  Small module;
  auto weights = Weights("");
  weights[4].second = at::zeros({5, 2});
  EXPECT_THAT(MessageOf([&] { ApplyInitialWeights(weights, Config(true), module); }), HasSubstr("fc.weight"));
  ApplyInitialWeights(weights, Config(/*strict=*/false), module);
  EXPECT_EQ(module.fc->bias[0].item<float>(), 7);
}

TEST(ReadInitialWeights, NamesAPyTorchFileAsSuch) {
  const TemporaryFolder folder;
  for (const std::string start : {"PK\x03\x04rest of a zip", "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P"}) {
    config::ModelConfig config;
    config.init_weights = folder.Write("weights.pth", start);
    EXPECT_THAT(MessageOf([&] { ReadInitialWeights(config); }),
                AllOf(HasSubstr("weights.pth"), HasSubstr("a PyTorch file")));
  }
}

TEST(ReadInitialWeights, AHeaderOf640BytesIsNoPickle) {
  const TemporaryFolder folder;
  config::ModelConfig config;
  std::string header = R"({"__metadata__":{"a":")" + std::string(500, 'x') + R"("}})";
  header.resize(640, ' ');
  config.init_weights = folder.Write("weights.safetensors", std::string("\x80\x02\0\0\0\0\0\0", 8) + header);
  EXPECT_EQ(ReadInitialWeights(config).metadata.at("a").size(), 500);
}

}  // namespace
}  // namespace dtrain::loop
