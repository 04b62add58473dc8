#include "trainer/weights/foreign_network.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

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

// What google/efficientnet-b0 to b7, microsoft/resnet-18, resnet-50 and the RoBERTas have on the Hugging Face hub.
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
    EXPECT_THAT(MessageOf([&] { RequireKnownConfig(config, "config.json", model); }),
                HasSubstr("depthwise_padding is [1]"));
  }
  const std::string resnet = R"("_name_or_path": "x", "architectures": ["ResNetForImageClassification"],
      "downsample_in_first_stage": false, "embedding_size": 64, "hidden_act": "relu", "model_type": "resnet",
      "num_channels": 3, )";
  const std::string roberta = R"("architectures": ["RobertaForMaskedLM"], "attention_probs_dropout_prob": 0.1,
      "bos_token_id": 0, "eos_token_id": 2, "gradient_checkpointing": false, "hidden_act": "gelu",
      "hidden_dropout_prob": 0.1, "initializer_range": 0.02, "layer_norm_eps": 1e-05, "max_position_embeddings": 514,
      "model_type": "roberta", "output_past": true, "pad_token_id": 1, "position_embedding_type": "absolute",
      "type_vocab_size": 1, "use_cache": true, "vocab_size": 50265, "hidden_size": 768, "intermediate_size": 3072,
      "num_attention_heads": 12, )";
  for (const auto& [model, fields] :
       {std::pair<std::string, std::string>{
            "resnet18",
            resnet + R"("depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic")"},
        {"resnet50",
         resnet + R"("depths": [3, 4, 6, 3], "hidden_sizes": [256, 512, 1024, 2048], "layer_type": "bottleneck")"},
        {"roberta", roberta + R"("num_hidden_layers": 12)"},
        {"roberta_base", roberta + R"("num_hidden_layers": 6)"},
        {"xlm_roberta", roberta + R"("num_hidden_layers": 12, "model_type": "xlm-roberta")"},
        {"camembert", roberta + R"("num_hidden_layers": 12, "model_type": "camembert", "bos_token_id": 5)"},
        // BGE's, which MiniLM's and E5's are like, and multilingual BERT's.
        {"bert", roberta + R"("num_hidden_layers": 12, "model_type": "bert", "_name_or_path": "/root/.cache/x",
            "architectures": ["BertModel"], "classifier_dropout": null, "id2label": {"0": "LABEL_0"},
            "label2id": {"LABEL_0": 0}, "torch_dtype": "float32")"},
        {"bert", roberta + R"("num_hidden_layers": 12, "model_type": "bert", "directionality": "bidi",
            "pooler_fc_size": 768, "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3,
            "pooler_size_per_head": 128, "pooler_type": "first_token_transform")"},
        {"distilbert", R"("activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1,
            "dim": 768, "dropout": 0.1, "hidden_dim": 3072, "initializer_range": 0.02, "max_position_embeddings": 512,
            "model_type": "distilbert", "n_heads": 12, "n_layers": 6, "pad_token_id": 0, "qa_dropout": 0.1,
            "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": false, "tie_weights_": true, "vocab_size": 30522)"},
        {"modernbert", R"("architectures": ["ModernBertForMaskedLM"], "attention_bias": false,
            "attention_dropout": 0.0, "bos_token_id": 50281, "classifier_activation": "gelu", "classifier_bias": false,
            "classifier_dropout": 0.0, "classifier_pooling": "mean", "cls_token_id": 50281, "decoder_bias": true,
            "deterministic_flash_attn": false, "embedding_dropout": 0.0, "eos_token_id": 50282,
            "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "gradient_checkpointing": false,
            "hidden_activation": "gelu", "hidden_size": 768, "initializer_cutoff_factor": 2.0,
            "initializer_range": 0.02, "intermediate_size": 1152, "layer_norm_eps": 1e-05, "local_attention": 128,
            "local_rope_theta": 10000.0, "max_position_embeddings": 8192, "mlp_bias": false, "mlp_dropout": 0.0,
            "model_type": "modernbert", "norm_bias": false, "norm_eps": 1e-05, "num_attention_heads": 12,
            "num_hidden_layers": 22, "pad_token_id": 50283, "position_embedding_type": "absolute",
            "reference_compile": true, "repad_logits_with_grad": false, "sep_token_id": 50282,
            "sparse_pred_ignore_index": -100, "sparse_prediction": false, "tie_word_embeddings": true)"}}) {
    EXPECT_EQ(MessageOf([&] { RequireKnownConfig(Config(fields), "config.json", model); }), "") << model;
  }
}

TEST(RequireKnownConfig, RefusesByName) {
  const auto message = [](const std::string& fields, const std::string& model) {
    return MessageOf([&] { RequireKnownConfig(Config(fields), "config.json", model); });
  };
  EXPECT_THAT(message(R"("adapters": {}, "model_type": "xlm-roberta")", "roberta"),
              HasSubstr(R"(config.json: model_type is "xlm-roberta", expected "roberta")"));
  EXPECT_THAT(message(R"("quantization_config": {})", "roberta"),
              HasSubstr("the field quantization_config is not known"));
  EXPECT_THAT(message(R"("hidden_act": "gelu_new")", "roberta"),
              HasSubstr("hidden_act is \"gelu_new\", expected \"gelu\""));
  EXPECT_THAT(message(R"("is_decoder": true)", "resnet50"), HasSubstr("is_decoder is true, expected false"));
  EXPECT_THAT(MessageOf([] {
                RequireKnownConfig({{"architecture", "resnet50"}, {"global_pool", "max"}}, "x", "resnet50");
              }),
              HasSubstr("global_pool is \"max\", expected \"avg\""));
  EXPECT_THAT(MessageOf([] {
                RequireKnownConfig({{"architecture", "resnet50d"}}, "x", "resnet50");
              }),
              HasSubstr("architecture is \"resnet50d\", expected \"resnet50\""));
  EXPECT_THAT(MessageOf([] { RequireKnownConfig(nlohmann::json::array(), "x", "resnet50"); }),
              HasSubstr("[] is not a JSON object"));
}

TEST(NormEpsilonIn, IsThatOfTheConfigUnlessItIsTheModelsOwn) {
  const models::Model& model = *models::FindModel("vit_tiny_patch16_224");
  EXPECT_EQ(NormEpsilonIn({{"layer_norm_eps", 1e-6}}, model), std::nullopt);
  EXPECT_EQ(NormEpsilonIn({{"layer_norm_eps", 1e-12}}, model), 1e-12);
  EXPECT_EQ(NormEpsilonIn(nullptr, model), std::nullopt);
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
