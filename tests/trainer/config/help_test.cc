// The properties of --help that people rely on.
#include "trainer/config/command_line.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "trainer/errors.h"

namespace dtrain::config {
namespace {

using testing::HasSubstr;

TEST(Help, FitsInAHundredColumns) {
  std::istringstream stream(Help({}));
  for (std::string line; std::getline(stream, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(Help, HasEveryFlagOnceWithDefaultAndRange) {
  const std::string help = Help({});
  for (const Flag& flag : Flags()) {
    const std::string entry = (flag.kind == Kind::kBool ? "\n  --[no]" : "\n  --") + flag.name;
    int matches = 0;
    for (size_t at = help.find(entry); at != std::string::npos; at = help.find(entry, at + 1)) {
      if (std::string(" =\n").find(help[at + entry.size()]) != std::string::npos) ++matches;
    }
    EXPECT_EQ(matches, 1) << flag.name;
  }
  EXPECT_THAT(help, HasSubstr("[default: 0.9; 0 to 1 (excluded)]"));
  EXPECT_THAT(help, HasSubstr("[default: not given; steps, 1 or more]"));
}

TEST(Help, OfATopic) {
  EXPECT_THAT(HelpOn("schedule"), testing::StartsWith("Learning rate schedule\n  --lr_schedule"));
  EXPECT_THAT(HelpOn("schedule"), testing::Not(HasSubstr("--image_size_schedule")));
  EXPECT_THAT(HelpOn("warmup"), HasSubstr("  --warmup_steps=INT"));
  EXPECT_THAT(HelpOn("warmup"), testing::Not(HasSubstr("--momentum")));
  EXPECT_EQ(HelpOn("nonsense"), "");
}

TEST(Help, IsAskedForByTopic) {
  EXPECT_EQ(ParseCommandLine({"--help=lr-decay"}).answer, HelpOn("lr_decay"));
  EXPECT_THROW(ParseCommandLine({"--help=nonsense"}), UsageError);
}

TEST(Help, AsJson) {
  const Program program = {
      .name = "dtrain_bench",
      .commands = {"step"},
      .flags = {{"json", Kind::kBool, "false", "One object."}, {"dump", Kind::kText, "", "A file."}}};
  const auto json = nlohmann::json::parse(ParseCommandLine({"step", "--help=json"}, program).answer);
  EXPECT_EQ(json["commands"], nlohmann::json({"step"}));
  ASSERT_EQ(json["flags"].size(), Flags().size() + 2);
  EXPECT_EQ(json["flags"][0]["default"], false);
  EXPECT_EQ(json["flags"][1]["default"], "");
  std::map<std::string, nlohmann::json> flags;
  for (const nlohmann::json& flag : json["flags"]) flags[flag["name"]] = flag;
  for (const Flag& flag : Flags()) {  // what the JSON says of the limits, the limits say
    const nlohmann::json& one = flags.at(flag.name);
    EXPECT_EQ(one.contains("minimum"), std::isfinite(flag.limits.minimum)) << flag.name;
    EXPECT_EQ(one.value("choices", std::vector<std::string>()), flag.limits.choices) << flag.name;
    EXPECT_EQ(one["default"].is_null(), std::holds_alternative<std::monostate>(flag.get(Config()))) << flag.name;
  }
  EXPECT_EQ(flags["momentum"]["type"], "number");
  EXPECT_EQ(flags["momentum"]["maximum_excluded"], true);
  EXPECT_THAT(flags["batch_size"]["aliases"], testing::Contains("max_sentences"));
  EXPECT_EQ(flags["mask_prob"]["tasks"], nlohmann::json({"masked_lm"}));
  EXPECT_FALSE(flags["epochs"].contains("tasks"));
}

}  // namespace
}  // namespace dtrain::config
