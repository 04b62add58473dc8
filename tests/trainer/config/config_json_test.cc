// The JSON form of a configuration.
#include "trainer/config/config_json.h"

#include <gmock/gmock.h>

#include "tests/message_of.h"
#include "trainer/config/command_line.h"
#include "trainer/config/flags.h"

namespace dtrain::config {
namespace {

TEST(ConfigJson, KeepsTypesAndNulls) {
  Config config;
  config.batch.max_steps = 7;
  config.image.mean = {0, 0.5, 1};
  const auto json = ToJson(config);
  EXPECT_TRUE(json["batch_size"].is_null());
  EXPECT_EQ(json["max_steps"], 7);
  EXPECT_EQ(json["mean"].dump(), "[0.0,0.5,1.0]");
  EXPECT_EQ(json["epochs"].dump(), "90.0");
  EXPECT_EQ(json["strict_weights"], true);
  EXPECT_EQ(json["optimizer"], "sgd");
}

// config.json typed in again gives the same configuration.
TEST(ConfigJson, RoundTripsThroughTheCommandLine) {
  Config config;
  config.optimizer.lr = 0.1 + 0.2;
  config.batch.batch_size = 12;
  config.image.std = {1, 1.0 / 3, 2};
  config.model.strict_weights = false;
  std::vector<std::string> arguments;
  for (const Flag& flag : Flags()) {
    const Value value = flag.get(config);
    if (!std::holds_alternative<std::monostate>(value)) arguments.push_back("--" + flag.name + "=" + ToText(value));
  }
  EXPECT_EQ(ToJson(ParseCommandLine(arguments).config), ToJson(config));
}

TEST(TakeFrom, WhatWasGivenWinsAndIsNamed) {
  const nlohmann::json saved = {
      {"image_size", 64}, {"model", "resnet18"}, {"mean", {0.5, 0, 1}}, {"std", nullptr}, {"lr", 7.5}};
  Config config = ParseCommandLine(std::vector<std::string>{"--image_size=32", "--mean=0.5,0,1"}).config;
  const auto different = TakeFrom(saved, {"image_size", "model", "mean", "std", "interpolation"}, config);
  EXPECT_THAT(different, testing::ElementsAre("--image_size=32 instead of 64"));
  EXPECT_EQ(config.image.size, 32);
  EXPECT_EQ(config.model.name, "resnet18");
  EXPECT_EQ(config.image.std, Config().image.std);
  EXPECT_EQ(config.optimizer.lr, std::nullopt);  // not among the names
}

TEST(TakeFrom, RefusesWhatAFlagCannotHave) {
  for (const nlohmann::json& value : std::vector<nlohmann::json>{"x", {{"a", 1}}, {1, "y"}}) {
    Config config;
    EXPECT_ERROR("the run's configuration has image_size = " + value.dump(),
                 TakeFrom({{"image_size", value}}, {"image_size"}, config));
  }
}

TEST(Changes, NamesWhatMattersWithBothValues) {
  Config before, now;
  before.optimizer.lr = 0.02;
  now.optimizer.lr = 0.005;
  before.batch.epochs = 2;
  now.batch.epochs = 3;
  now.model.init_weights = "a.safetensors";
  now.data.workers = 7;
  now.data.dir = "elsewhere";
  now.run.resume = "none";
  now.report.log_interval = 3;
  now.ranks.run_token = "secret";
  EXPECT_EQ(Changes(TrainingPart(before), TrainingPart(now)),
            "init_weights none → a.safetensors, epochs 2 → 3, lr 0.02 → 0.005");
  EXPECT_EQ(Changes(TrainingPart(now), TrainingPart(now)), "");
  EXPECT_EQ(Changes(nlohmann::json(), TrainingPart(now)), "");  // a checkpoint of an old version
  EXPECT_FALSE(TrainingPart(now).contains("run_token"));
}

}  // namespace
}  // namespace dtrain::config
