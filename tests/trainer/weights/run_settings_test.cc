#include "trainer/weights/run_settings.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"
#include "trainer/errors.h"
#include "trainer/weights/text_model.h"

namespace dtrain::weights {
namespace {

using testing::HasSubstr;

config::Config EvaluationOf(const std::string& run) {
  config::Config config;
  config.run.mode = "eval";
  config.run.dir = run;
  return config;
}

std::string Nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(TakeSettingsOfRun, TheRunsDataIsFoundFromAnyDirectory) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "photos");
  const auto fraction = [&folder](const std::string& directory, const std::string& data) {
    const nlohmann::json start = {{"directory", directory}};
    folder.Write("config.json", nlohmann::json({{"model", "resnet18"},
                                                {"image_size", 64},
                                                {"data_dir", "photos"},
                                                {"val_fraction", 0.25},
                                                {"start", start}})
                                    .dump());
    config::Config config = EvaluationOf(folder.path());
    config.data.dir = data;
    TakeSettingsOfRun(config);
    return config.data.val_fraction;
  };
  EXPECT_EQ(fraction(folder.path(), folder.path("photos")), 0.25);
  EXPECT_EQ(fraction(folder.path(), "photos"), 0) << "another folder of this name, beside the tests";
  EXPECT_EQ(fraction(folder.path("gone"), "photos"), 0.25) << "moved with its data";
}

// The file may come from a stranger, and its values are copied and shown, which recurses.
TEST(TakeSettingsOfRun, WhatIsNestedTooDeeplyIsDamaged) {
  for (const std::string& text :
       {R"({"model": )" + Nested(200'000) + "}", R"({"mean": )" + Nested(70) + "}", Nested(3), std::string("{")}) {
    const TemporaryFolder run;
    run.Write("config.json", text);
    config::Config config = EvaluationOf(run.path());
    EXPECT_THROW(TakeSettingsOfRun(config), StorageError) << text.substr(0, 20);
  }
}

TEST(TextOptionsOf, WhatIsNoConfigurationIsRefused) {
  const TemporaryFolder folder;
  config::Config config;
  config.model.name = "roberta";
  config.model.config_file = folder.Write("config.json", R"({"hidden_size": )" + Nested(200'000) + "}");
  const auto message = [&] { return MessageOf([&] { TextOptionsOf(config, {}, {}); }); };
  EXPECT_THAT(message(), HasSubstr("is not JSON"));
  config.model.config_file = folder.path("link");
  std::filesystem::create_symlink("link", folder.path("link"));
  EXPECT_THAT(message(), HasSubstr("is not a file"));
}

TEST(TextOptionsOf, AGivenDropoutIsTheEmbeddingsToo) {
  const TemporaryFolder folder;
  config::Config config;
  config.model.name = "modernbert";
  config.model.config_file = folder.Write("config.json", R"({"mlp_dropout": 0, "embedding_dropout": 0.3})");
  EXPECT_EQ(TextOptionsOf(config, {}, {}).shape.embedding_dropout, 0.3);
  config.model.dropout = 0;
  EXPECT_EQ(TextOptionsOf(config, {}, {}).shape.embedding_dropout, 0);
}

TEST(MakeTextModel, ADecoderOfItsOwnIsForNoHeadThatGuessesWords) {
  const TemporaryFolder folder;
  config::Config config;
  config.model.name = "modernbert";
  config.model.config_file = folder.Write(
      "config.json", R"({"vocab_size": 8, "hidden_size": 4, "num_attention_heads": 1, "num_hidden_layers": 1,
                         "pad_token_id": 0, "max_position_embeddings": 512, "tie_word_embeddings": false})");
  const auto options = TextOptionsOf(config, {}, {});
  const auto make = [&](const models::TextHead& head) { return MakeTextModel(options, head, /*seed=*/1, at::kCPU); };
  EXPECT_EQ(make({models::HeadKind::kClasses, {"a", "b"}})->outputs(), 2);
  EXPECT_ERROR("tie_word_embeddings", make({}));
}

TEST(ClassifierDropout, DistilBertsIsOfSequences) {
  config::Config config;
  config.model.name = "distilbert";
  const WeightsOutline weights{.shapes = {}, .model_config = R"({"seq_classif_dropout": 0.2})"};
  EXPECT_EQ(ClassifierDropout(config, weights, models::HeadKind::kClasses), 0.2);
  EXPECT_EQ(ClassifierDropout(config, weights, models::HeadKind::kTokens), std::nullopt);
  config.model.dropout = 0.3;
  EXPECT_EQ(ClassifierDropout(config, weights, models::HeadKind::kClasses), 0.3);
  config.model.classifier_dropout = 0.5;
  EXPECT_EQ(ClassifierDropout(config, weights, models::HeadKind::kTokens), 0.5);
}

TEST(TakeTokensOfModel, TheDefaultIsAsLongAsTheModelAllows) {
  const TemporaryFolder folder;
  const auto taken = [](config::Config config) {
    const std::string note = TakeTokensOfModel(config);
    return note + " (" + std::to_string(config.text.tokens_per_sample) + ")";
  };
  config::Config config;
  config.model.name = "roberta";
  EXPECT_EQ(taken(config), " (512)");
  config.model.config_file = folder.Write("config.json", R"({"max_position_embeddings": 130, "pad_token_id": 1})");
  EXPECT_EQ(taken(config), "--tokens_per_sample=128, as many as the model has positions (128)");
  config.given = {"tokens_per_sample"};
  EXPECT_EQ(taken(config), " (512)");
  config.given.clear();
  folder.Write("config.json", R"({"max_position_embeddings": 1026, "pad_token_id": 1})");
  EXPECT_EQ(taken(config), " (512)");
}

}  // namespace
}  // namespace dtrain::weights
