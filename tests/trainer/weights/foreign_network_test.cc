#include "trainer/weights/foreign_network.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "models/registry.h"
#include "tests/message_of.h"
#include "trainer/weights/run_settings.h"

namespace dtrain::weights {
namespace {

using testing::HasSubstr;

nlohmann::json Config(const std::string& fields) {
  const std::string usual = R"("id2label": {"0": "tench"}, "label2id": {"tench": 0}, "torch_dtype": "float32")";
  return nlohmann::json::parse("{" + fields + ", " + usual + R"(, "transformers_version": "4.27.0.dev0"})");
}

// What google/efficientnet-b0 to b7 have on the Hugging Face hub, and what is in the file: microsoft/resnet-18 and -50,
// the RoBERTas, BGE (as MiniLM and E5), multilingual BERT, DistilBERT and ModernBERT.
TEST(RequireKnownConfig, KnowsWhatIsPublished) {
  const struct {
    double width, depth;
    int64_t hidden, size;
    std::vector<int64_t> padding;
  } efficientnets[] = {{1.0, 1.0, 1280, 224, {}},      {1.0, 1.1, 1280, 240, {16}}, {1.1, 1.2, 1408, 260, {5, 8, 16}},
                       {1.2, 1.4, 1536, 300, {5, 18}}, {1.4, 1.8, 1792, 380, {6}},  {1.6, 2.2, 2048, 456, {13, 27}},
                       {1.8, 2.6, 2304, 528, {31}},    {2.0, 3.1, 2560, 600, {18}}};
  for (size_t i = 0; i < std::size(efficientnets); ++i) {
    const auto& published = efficientnets[i];
    nlohmann::json config = Config(
        R"("architectures": ["EfficientNetForImageClassification"], "batch_norm_eps": 0.001, "batch_norm_momentum": 0.99,
           "depth_divisor": 8, "drop_connect_rate": 0.2, "dropout_rate": 0.2, "expand_ratios": [1, 6, 6, 6, 6, 6, 6],
           "hidden_act": "swish", "in_channels": [32, 16, 24, 40, 80, 112, 192], "initializer_range": 0.02,
           "kernel_sizes": [3, 3, 5, 3, 5, 5, 3], "model_type": "efficientnet", "num_block_repeats": [1, 2, 2, 3, 3, 4, 1],
           "num_channels": 3, "num_hidden_layers": 64, "out_channels": [16, 24, 40, 80, 112, 192, 320],
           "pooling_type": "mean", "squeeze_expansion_ratio": 0.25, "strides": [1, 2, 2, 2, 1, 2, 1])");
    config.update({{"width_coefficient", published.width},
                   {"depth_coefficient", published.depth},
                   {"hidden_dim", published.hidden},
                   {"image_size", published.size},
                   {"depthwise_padding", published.padding}});
    const std::string model = "tf_efficientnet_b" + std::to_string(i);
    EXPECT_EQ(MessageOf([&] { RequireKnownConfig(config, "config.json", model); }), "") << model;
    EXPECT_TRUE(models::FindModel(model)->pads_as_hugging_face(published.size)) << model;
    config["depthwise_padding"] = {1};
    EXPECT_ERROR("depthwise_padding is [1]", RequireKnownConfig(config, "config.json", model));
  }
  std::ifstream file(std::string(TESTDATA_DIR) + "/published_configs.json");
  for (const nlohmann::json& published : nlohmann::json::parse(file)) {
    const std::string model = published.at("model");
    nlohmann::json config = Config(R"("_name_or_path": "x")");
    config.update(published.at("config"));
    EXPECT_EQ(MessageOf([&] { RequireKnownConfig(config, "config.json", model); }), "") << model;
  }
}

TEST(RequireKnownConfig, IdsOfTokensChangeNothing) {
  for (const models::Family& family : models::Families()) {
    if (family.input != models::Input::kText) continue;
    const nlohmann::json ids = {{"cls_token_id", 2}, {"sep_token_id", 3}, {"mask_token_id", 4}, {"unk_token_id", 5}};
    EXPECT_EQ(MessageOf([&] { RequireKnownConfig(ids, "config.json", family.models.front().name); }), "");
  }
}

// tests/interop/test_foreign_configs.py changes each field of Hugging Face's.
TEST(RequireKnownConfig, RefusesByNameWhatTimmHasOtherwise) {
  EXPECT_ERROR("global_pool is \"max\", expected \"avg\"",
               RequireKnownConfig({{"architecture", "resnet50"}, {"global_pool", "max"}}, "x", "resnet50"));
  EXPECT_ERROR("global_pool is \"avg\", expected \"token\"",
               RequireKnownConfig({{"architecture", "vit_tiny_patch16_224"}, {"global_pool", "avg"}}, "x",
                                  "vit_tiny_patch16_224"));
  EXPECT_ERROR("architecture is \"resnet50d\", expected \"resnet50\"",
               RequireKnownConfig({{"architecture", "resnet50d"}}, "x", "resnet50"));
  EXPECT_ERROR("[] is not a JSON object", RequireKnownConfig(nlohmann::json::array(), "x", "resnet50"));
}

TEST(NormEpsilonIn, IsThatOfTheConfigUnlessItIsTheModelsOwn) {
  const models::Model& model = *models::FindModel("vit_tiny_patch16_224");
  EXPECT_EQ(NormEpsilonIn({{"layer_norm_eps", 1e-6}}, model), std::nullopt);
  EXPECT_EQ(NormEpsilonIn({{"layer_norm_eps", 1e-12}}, model), 1e-12);
  EXPECT_EQ(NormEpsilonIn(nullptr, model), std::nullopt);
  // The inner norms of transformers' ConvNeXt have 1e-6 whatever it says.
  EXPECT_EQ(NormEpsilonIn({{"layer_norm_eps", 1e-12}}, *models::FindModel("convnext_atto")), std::nullopt);
}

TEST(RequireSameNetwork, PadsAsTheModelDoesWhereItIsKnown) {
  struct Case {
    std::string file, config, metadata;
    bool is_tensorflows;
  };
  for (const Case& told : {Case{"tf_efficientnet_b0_ns-c0e6a31c.pth", "", "", true},
                           {"model.safetensors", R"({"architecture": "tf_efficientnet_b0"})", "", true},
                           {"model.safetensors", R"({"architecture": "efficientnet_b0"})", "", false},
                           {"model.safetensors", "", R"({"model": "tf_efficientnet_b0"})", true},
                           {"model.safetensors", "", R"({"model": "efficientnet_b0"})", false}}) {
    const auto message = [&](const std::string& model) {
      checkpoint::SafetensorsContent content{{{"features.0.0.weight", at::ones({1})}}, {}};
      if (!told.metadata.empty()) content.metadata[kSettings] = told.metadata;
      const WeightsPlace place{.file = told.file, .config_file = "config.json", .model_config = told.config};
      return MessageOf([&] { RequireSameNetwork(place, content, model); });
    };
    const std::string right = told.is_tensorflows ? "tf_efficientnet_b0" : "efficientnet_b0";
    EXPECT_EQ(message(right), "");
    EXPECT_THAT(message(told.is_tensorflows ? "efficientnet_b0" : "tf_efficientnet_b0"),
                HasSubstr(told.is_tensorflows ? "is of a tf_efficientnet model" : "is of an efficientnet model"));
  }
  EXPECT_EQ(MessageOf([] { RequireSameNetwork({.file = "x.safetensors"}, {}, "tf_efficientnet_b0"); }), "");
}

}  // namespace
}  // namespace dtrain::weights
