#include "trainer/weights/initial_weights.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <tuple>

#include "models/registry.h"
#include "tests/message_of.h"
#include "tests/roberta.h"
#include "tests/temporary_folder.h"
#include "trainer/checkpoint/store.h"
#include "trainer/checkpoint/torch_file.h"
#include "trainer/weights/module_state.h"
#include "trainer/weights/text_model.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::weights {
namespace {

using testing::AllOf;
using testing::ElementsAre;
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
  config.name = "resnet18";
  config.init_weights = "weights.safetensors";
  config.strict_weights = strict;
  return config;
}

TEST(TakeOffWrappers, TakesOffWhatStandsInFrontOfAllNames) {
  for (const std::string prefix :
       {"", "module.", "_orig_mod.", "model.", "module._orig_mod.", "_orig_mod.module.model."}) {
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
  weights.back().first = "n_averaged";  // of torch's AveragedModel, which it goes with
  EXPECT_EQ(TakeOffWrappers(weights), "module.");
  EXPECT_EQ(weights.size(), Weights("").size());
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

TEST(WithOneHead, AnUntiedDecoderIsRefusedWhereItGuessesWords) {
  config::ModelConfig config;
  for (const auto& [name, head, decoder] : {std::tuple("bert", "cls.predictions", "cls.predictions.decoder.weight"),
                                            {"distilbert", "vocab_transform", "vocab_projector.weight"},
                                            {"roberta", "lm_head", "lm_head.decoder.weight"},
                                            {"modernbert", "decoder", "decoder.weight"}}) {
    config.name = name;
    const std::string words = models::FamilyOf(name).text.word_rows.front();
    const auto own = WithOwnNames({{words, at::zeros({3, 2})}, {decoder, at::ones({3, 2})}}, config, "x");
    EXPECT_EQ(WithOneHead(own, config, "classifier", "x").size(), 1U) << name;
    EXPECT_ERROR("its decoder is not the word embedding", WithOneHead(own, config, head, "x"));
  }
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
  EXPECT_ERROR("fc.weight", ApplyInitialWeights(weights, Config(true), module));
  ApplyInitialWeights(weights, Config(/*strict=*/false), module);
  EXPECT_EQ(module.fc->bias[0].item<float>(), 7);
}

// tests/interop/test_image_fine_tuning.py takes weights of other classes, whose classifier begins anew.
TEST(ApplyInitialWeights, AClassifierOfAnotherWidthBelongsToAnotherModel) {
  Small module;
  auto weights = Weights("");
  weights[4].second = at::zeros({7, 5});
  EXPECT_ERROR("fc.weight", ApplyInitialWeights(weights, Config(true), module, KnownHeads()));
}

TEST(ApplyInitialWeights, TheRowsOfAClassifierFollowTheNames) {
  const Small given;
  const auto taken = [&](const std::vector<std::string>& before, const std::vector<std::string>& now) {
    Small module;
    const KnownHeads classes = {{.names = before, .count = 3}, {.names = now, .count = 3}};
    ApplyInitialWeights(StateOf(given), Config(/*strict=*/true), module, classes);
    std::vector<int64_t> rows(3, -1);  // those of `given` that the module has, -1: others
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 3; ++j) {
        const bool is_same =
            module.fc->weight[i].equal(given.fc->weight[j]) && module.fc->bias[i].equal(given.fc->bias[j]);
        if (is_same) rows[static_cast<size_t>(i)] = j;
      }
    }
    return rows;
  };
  EXPECT_THAT(taken({"a", "b", "c"}, {"a", "b", "c"}), ElementsAre(0, 1, 2));
  EXPECT_THAT(taken({"a", "b", "c"}, {"c", "a", "b"}), ElementsAre(2, 0, 1));
  EXPECT_THAT(taken({"a", "b"}, {"b", "a"}), ElementsAre(1, 0, 2)) << "with --num_classes=3";
  EXPECT_THAT(taken({}, {"c", "a", "b"}), ElementsAre(0, 1, 2));
  EXPECT_THAT(taken({"a", "b", "c"}, {}), ElementsAre(0, 1, 2));
  for (const std::vector<std::string>& others :
       {{"a", "b", "d"}, std::vector<std::string>{"a", "b"}, {"a", "a", "b"}}) {
    EXPECT_THAT(taken({"a", "b", "c"}, others), ElementsAre(-1, -1, -1));
  }
}

constexpr models::EncoderOptions kText = {
    {.vocab_size = 9, .hidden_size = 8, .longest_sequence = 4}, /*layers=*/1, /*heads=*/2, /*intermediate_size=*/8};

config::ModelConfig TextConfig() {
  config::ModelConfig config = Config(/*strict=*/true);
  config.name = "roberta";
  return config;
}

// Weights of another task, or for another number of classes, give a classifier of text its encoder.
TEST(ApplyInitialWeights, AClassifierOfTextBeginsAnew) {
  const models::RobertaForMaskedLM words(kText);
  const models::RobertaForSequenceClassification three(kText, 3, 0);
  for (const torch::nn::Module* given : std::initializer_list<const torch::nn::Module*>{&words, &three}) {
    models::RobertaForSequenceClassification two(kText, 2, 0);
    const auto parameters = two.named_parameters();
    EXPECT_ERROR("classifier.out_proj.weight", ApplyInitialWeights(StateOf(*given), TextConfig(), two));
    const at::Tensor dense = parameters["classifier.dense.weight"].detach().clone();
    ApplyInitialWeights(StateOf(*given), TextConfig(), two, KnownHeads());
    EXPECT_TRUE(parameters["classifier.dense.weight"].equal(dense));
    EXPECT_TRUE(parameters["roberta.embeddings.word_embeddings.weight"].equal(
        given->named_parameters()["roberta.embeddings.word_embeddings.weight"]));
  }
  models::RobertaForSequenceClassification same(kText, 3, 0);
  ApplyInitialWeights(StateOf(three), TextConfig(), same, KnownHeads());
  EXPECT_TRUE(
      same.named_parameters()["classifier.dense.weight"].equal(three.named_parameters()["classifier.dense.weight"]));
}

TEST(ApplyInitialWeights, NothingButTheClassifierOfTextMayBeMissing) {
  models::RobertaForSequenceClassification model(kText, 3, 0);
  for (const char* name : {"classifier.dense.bias", "roberta.embeddings.LayerNorm.weight"}) {
    checkpoint::NamedTensors weights = StateOf(model);
    std::erase_if(weights, [&](const auto& item) { return item.first == name; });
    EXPECT_ERROR(name, ApplyInitialWeights(weights, TextConfig(), model, KnownHeads()));
  }
}

TEST(ApplyInitialWeights, AClassifierOfTextIsNoMaskedLanguageModel) {
  const models::RobertaForSequenceClassification classifier(kText, 3, 0);
  models::RobertaForMaskedLM model(kText);
  EXPECT_ERROR("it has a classification head and no masked-LM head",
               ApplyInitialWeights(StateOf(classifier), TextConfig(), model, KnownHeads()));
}

// tests/interop/test_weights.py converts names and ε of others.
TEST(ReadInitialWeights, NamesAreHeldToWhatIsSaid) {
  const TemporaryFolder folder;
  config::Config config;
  config.model.name = "efficientnet_b5";
  config.model.init_weights = folder.path("timm.safetensors");
  config.model.weights_naming = "torchvision";
  checkpoint::WriteSafetensors(config.model.init_weights,
                               {{"conv_stem.weight", at::ones({2})}, {"bn1.running_var", at::ones({2})}});
  EXPECT_ERROR("are those of timm", ReadInitialWeights(config));
  config.model.weights_naming = "auto";
  EXPECT_NEAR(ReadInitialWeights(config).tensors[0].second[0].item<double>(), 1 + 1e-5 - 1e-3, 1e-6);  // timm's ε
  config.model.bn_eps = 1e-5;  // so that the two models have the same
  EXPECT_EQ(ReadInitialWeights(config).tensors[0].second[0].item<double>(), 1);
}

TEST(ReadInitialWeights, AFileOfOneSetHasNoAverage) {
  const TemporaryFolder folder;
  config::Config config;
  config.model.init_weights = folder.path("a.safetensors");
  config.run.weights = "ema";
  checkpoint::WriteSafetensors(config.model.init_weights, {{"a", at::ones({2})}});
  EXPECT_ERROR("--weights=ema", ReadInitialWeights(config));
  config.model.init_weights = folder.path("a.pth");
  checkpoint::WriteTorchFile(config.model.init_weights, {{"a", at::ones({2})}}, "mark");
  EXPECT_ERROR("--weights=ema", ReadInitialWeights(config));
}

TEST(ReadInitialWeights, AHeaderOf640BytesIsNoPickle) {
  const TemporaryFolder folder;
  config::Config config;
  std::string header = R"({"__metadata__":{"step":"1","a":")" + std::string(500, 'x') + R"("}})";
  header.resize(640, ' ');
  config.model.init_weights = folder.Write("weights.safetensors", std::string("\x80\x02\0\0\0\0\0\0", 8) + header);
  EXPECT_EQ(ReadInitialWeights(config).metadata.at("a").size(), 500);
}

TEST(ReadInitialWeights, AFileInACheckpointHasTheClassesAndTheModelOfItsState) {
  const TemporaryFolder folder;
  checkpoint::Snapshot snapshot;
  snapshot.step = 1;
  snapshot.model = Weights("");
  snapshot.state = nlohmann::json::parse(
      R"({"classes": {"class_names": ["b", "a"], "num_classes": 2, "label_offset": null}, "held_out": "x",
          "config": {"model": "tf_efficientnet_b0"}, "run": {"model_shape": 7}})");
  const std::filesystem::path checkpoint = checkpoint::Store(folder.path()).Publish(snapshot).directory;
  config::Config config;
  for (const std::filesystem::path& path : {checkpoint, checkpoint / "model.safetensors"}) {
    config.model.init_weights = path.string();
    config.model.name = "tf_efficientnet_b0";
    checkpoint::Metadata metadata = ReadInitialWeights(config).metadata;
    EXPECT_THAT(ClassesFrom(metadata, "").names, ElementsAre("b", "a"));
    EXPECT_EQ(metadata["held_out"], "x");
    EXPECT_EQ(metadata[kModelConfigKey], "7");
    config.model.name = "efficientnet_b0";
    EXPECT_ERROR("is of a tf_efficientnet model", ReadInitialWeights(config));
  }
  WriteAll(checkpoint / "state.json", "{");
  EXPECT_ERROR("is not a valid checkpoint: state.json has 1 bytes", ReadInitialWeights(config));
}

TEST(ReadInitialWeights, ADefaultModelIsNotBlamed) {
  const TemporaryFolder folder;
  checkpoint::WriteSafetensors(folder.path("model.safetensors"), Weights(""), {});
  folder.Write("config.json", R"({"model_type": "vit", "hidden_size": 32})");
  config::Config config;
  config.model.init_weights = folder.path().string();
  EXPECT_ERROR("is of no model of these sizes that is known here", ReadInitialWeights(config));
  config.given = {"model"};
  EXPECT_ERROR("describes another network than --model=resnet50", ReadInitialWeights(config));
}

TEST(FindWeights, AConfigMayNameManyClasses) {
  const TemporaryFolder folder;
  checkpoint::WriteSafetensors(folder.path("model.safetensors"), Weights(""), {});
  const std::string config = R"({"architecture": "resnet18", "label_names": [")" + std::string(4 << 20, 'x') + R"("]})";
  folder.Write("config.json", config);
  EXPECT_EQ(FindWeights(folder.path()).model_config, config);
}

TEST(FindWeights, ADamagedConfigIsNotOverlooked) {
  const TemporaryFolder folder;
  checkpoint::WriteSafetensors(folder.path("model.safetensors"), Weights(""), {});
  folder.Write("config.json", R"({"model_type": "roberta",)");
  EXPECT_ERROR("config.json is not JSON", FindWeights(folder.path()));
}

}  // namespace
}  // namespace dtrain::weights
