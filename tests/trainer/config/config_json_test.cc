// The JSON form of a configuration.
#include "trainer/config/config_json.h"

#include <gtest/gtest.h>

#include "trainer/config/command_line.h"
#include "trainer/config/flags.h"

namespace dtrain::config {
namespace {

TEST(ConfigJson, IsFlatWithOneKeyPerFlagInTheirOrder) {
  const auto json = ToJson(Config());
  auto item = json.begin();
  for (const Flag& flag : Flags()) {
    ASSERT_NE(item, json.end());
    EXPECT_EQ(item.key(), flag.name);
    EXPECT_FALSE(item->is_object()) << flag.name;
    ++item;
  }
  EXPECT_EQ(item, json.end());
}

TEST(ConfigJson, SaysNothingOfTheToken) {
  Config config;
  config.ranks.run_token = "a secret";
  EXPECT_EQ(ToJson(config)["run_token"], "");
}

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

}  // namespace
}  // namespace dtrain::config
