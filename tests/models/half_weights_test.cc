// Steps with copies of the weights have the bits of steps in which autocast casts them, and a copy is what it was until
// it is written again.
#include "models/half_weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/image_networks.h"
#include "models/layers.h"
#include "tests/models/autocast.h"
#include "tests/models/text_stand_in.h"
#include "tests/roberta.h"

namespace dtrain::models {
namespace {

using Loss = std::function<at::Tensor(torch::nn::Module& model)>;  // under autocast

// Runs steps of two equal models, one of which has copies.
void ExpectSameSteps(const std::shared_ptr<torch::nn::Module>& plain, const std::shared_ptr<torch::nn::Module>& with,
                     const Loss& loss_of) {
  const HalfWeights copies(*with, at::kBFloat16);
  for (int step = 0; step < 2; ++step) {
    for (const auto& model : {plain, with}) {
      at::Tensor loss;
      {
        const Autocast autocast;
        loss = loss_of(*model);
      }
      loss.backward();
    }
    const at::NoGradGuard no_grad;
    for (const auto& item : plain->named_parameters()) {
      at::Tensor weight = item.value(), same = with->named_parameters()[item.key()];
      EXPECT_EQ(same.grad().defined(), weight.grad().defined()) << item.key();
      if (!weight.grad().defined()) continue;
      EXPECT_EQ(same.grad().scalar_type(), at::kFloat);
      EXPECT_EQ(same.grad().strides(), weight.grad().strides()) << item.key();
      EXPECT_TRUE(at::equal(same.grad(), weight.grad())) << step << " " << item.key();
      ASSERT_TRUE(weight.grad().isfinite().all().item<bool>()) << step << " " << item.key();
      weight.sub_(weight.grad(), 1e-5);
      same.sub_(same.grad(), 1e-5);
      weight.mutable_grad().reset();
      same.mutable_grad().reset();
    }
    copies.Write();
  }
}

TEST(HalfWeights, ImagesHaveTheBitsOfAutocast) {
  const ImageModelOptions given{.num_classes = 5, .dropout = 0, .drop_path = 0};
  const EfficientNetOptions efficient{.stages = {{1, 3, 1, 8, 8, 1, /*fused=*/true}, {4, 3, 2, 8, 16, 2}},
                                      .head_channels = 32};
  for (const bool is_residual : {false, true}) {
    SCOPED_TRACE(is_residual);
    std::vector<std::shared_ptr<ImageModel>> models;
    for (int i = 0; i < 2; ++i) {
      at::manual_seed(1);
      models.push_back(is_residual ? MakeResNet({.bottleneck = true, .blocks = {1, 1}}, given)
                                   : MakeEfficientNet(efficient, given));
      for (at::Tensor& weight : models[i]->parameters()) {
        if (weight.dim() == 4) weight.set_data(weight.contiguous(at::MemoryFormat::ChannelsLast));
      }
    }
    const at::Tensor images = at::randn({2, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
    ExpectSameSteps(models[0], models[1], [&](torch::nn::Module& model) {
      return dynamic_cast<ImageModel&>(model).forward(images).to(at::kFloat).square().sum();
    });
  }
}

TEST(HalfWeights, TextHasTheBitsOfAutocast) {
  at::manual_seed(1);
  const at::Tensor ids = at::randint(4, 50, {3, 9}, at::kLong);
  for (const bool kernels : {false, true}) {
    for (const bool checkpointed : {false, true}) {
      SCOPED_TRACE(testing::Message() << kernels << checkpointed);
      std::vector<std::shared_ptr<RobertaForMaskedLM>> models;
      for (int i = 0; i < 2; ++i) {
        at::manual_seed(2);
        EncoderOptions own = SmallRoberta(/*dropout=*/0);
        own.checkpoint_activations = checkpointed;
        models.push_back(std::make_shared<RobertaForMaskedLM>(own));
        if (kernels) UseKernels(*models[i], {.text = &stand_in::kTextKernels});
        models[i]->named_parameters()["roberta.encoder.layer.1.attention.self.key.weight"].set_requires_grad(false);
      }
      ExpectSameSteps(models[0], models[1], [&](torch::nn::Module& model) {
        auto& roberta = dynamic_cast<RobertaForMaskedLM&>(model);
        const int64_t multiple = kernels ? RobertaForMaskedLM::kColumnsMultiple : 1;
        const at::Tensor scores = roberta.Scores(roberta.Encode(Padded(ids, {}, roberta.shape())), multiple);
        EXPECT_EQ(scores.size(1), kernels ? 64 : 50);
        return scores.to(at::kFloat).log_softmax(1).slice(1, 0, 7).square().sum();
      });
    }
  }
}

TEST(HalfWeights, AreRightAfterWriteAndOnlyInTrainingSteps) {
  Linear layer(4, 4);
  const at::Tensor unit = at::eye(4);
  const HalfWeights copies(*layer, at::kBFloat16);
  const auto used = [&] {
    const Autocast autocast;
    return layer(unit).sub(layer->bias.to(at::kBFloat16)).t().detach();
  };
  const auto rounded = [](const at::Tensor& weight) { return weight.detach().to(at::kBFloat16); };
  const at::NoGradGuard no_grad;
  layer->bias.zero_();
  const at::Tensor first = rounded(layer->weight), average = at::randn({4, 4});
  EXPECT_TRUE(at::equal(used(), first));
  layer->weight.mul_(3);
  EXPECT_TRUE(at::equal(used(), first));
  EXPECT_TRUE(at::equal(layer(unit), layer->weight.t()));  // without autocast
  copies.Write();
  EXPECT_TRUE(at::equal(used(), rounded(layer->weight)));

  // As optim::WeightAverage swaps weights for an evaluation.
  const at::Tensor before = layer->weight.detach();
  layer->eval();
  layer->weight.set_data(average);
  EXPECT_TRUE(at::equal(used(), rounded(average)));
  layer->weight.set_data(before);
  layer->train();
  EXPECT_TRUE(at::equal(used(), rounded(before)));
}

TEST(HalfWeights, OfHalfTypesHaveNoCopies) {
  Linear layer(4, 4);
  layer->to(at::kBFloat16);
  HalfWeights copies(*layer, at::kBFloat16);
  EXPECT_FALSE(copies.CopyOf({layer->weight}).Rows().defined());
}

}  // namespace
}  // namespace dtrain::models
