// Compares the table with the struct: every flag reads and stores its own field, and gflags has the same defaults.
#include "trainer/config/flags.h"

#include <gflags/gflags.h>
#include <gmock/gmock.h>

#include <cmath>
#include <regex>
#include <set>

#include "trainer/config/choices.h"

namespace dtrain::config {
namespace {

TEST(Flags, NamesAreUniqueAndSectionsStayTogether) {
  std::set<std::string> names;
  std::vector<std::string> sections;
  for (const Flag& flag : Flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_FALSE(flag.help.empty()) << flag.name;
    if (sections.empty() || sections.back() != flag.section) sections.push_back(flag.section);
  }
  EXPECT_THAT(sections, testing::ElementsAre("run", "data", "image", "text", "model", "teacher", "batch", "optimizer",
                                             "schedule", "precision", "ranks", "report"));
}

TEST(Flags, GflagsHasTheDefaultsOfConfig) {
  const gflags::FlagSaver saver;
  for (const Flag& flag : Flags()) {
    const Value value = flag.get(Config());
    EXPECT_TRUE(flag.limits.Allow(value)) << flag.name;
    if (std::holds_alternative<std::monostate>(value)) continue;
    const std::string default_value = gflags::GetCommandLineFlagInfoOrDie(flag.name.c_str()).default_value;
    gflags::SetCommandLineOption(flag.name.c_str(), ToText(value).c_str());
    EXPECT_EQ(gflags::GetCommandLineFlagInfoOrDie(flag.name.c_str()).current_value, default_value) << flag.name;
  }
}

TEST(Flags, StoreWritesTheFieldThatGetReads) {
  const gflags::FlagSaver saver;
  for (const Flag& flag : Flags()) {
    const std::string values[] = {"true", "7", "0.25", "word", "1,2,3"};
    const std::string& value = values[static_cast<size_t>(flag.kind)];
    const std::string other = flag.kind == Kind::kBool ? "false" : value;
    Config config;
    for (const std::string& text : {value, other}) {
      ASSERT_FALSE(gflags::SetCommandLineOption(flag.name.c_str(), text.c_str()).empty()) << flag.name;
      ASSERT_TRUE(flag.store(config)) << flag.name;
      EXPECT_EQ(ToText(flag.get(config)), text) << flag.name;
    }
    int changed = 0;
    for (const Flag& any : Flags()) changed += any.get(config) != any.get(Config()) ? 1 : 0;
    EXPECT_LE(changed, 1) << flag.name << " writes another flag's field";
  }
}

TEST(Flags, OfFilesAndFoldersSayWhetherTheyAreReadOrWritten) {
  const std::regex speaks_of_one("FILE|Folder |File |(a|this) file|config\\.json");
  for (const Flag& flag : Flags()) {
    const bool names_path = flag.kind == Kind::kText && flag.limits.choices.empty() &&
                            std::regex_search(flag.help, speaks_of_one) && !flag.name.ends_with("_split");
    EXPECT_FALSE(names_path && flag.traits.path == data::PathUse::kNone) << flag.name;
  }
}

TEST(Flags, LimitsHoldOnBothEdges) {
  const Limits closed{.minimum = 0, .maximum = 1};
  EXPECT_TRUE(closed.Allow(0.0));
  EXPECT_TRUE(closed.Allow(int64_t{1}));
  EXPECT_FALSE(closed.Allow(std::nextafter(0.0, -1.0)));
  EXPECT_FALSE(closed.Allow(std::nextafter(1.0, 2.0)));
  const Limits open{.minimum = 0, .maximum = 1, .minimum_excluded = true, .maximum_excluded = true};
  EXPECT_FALSE(open.Allow(0.0));
  EXPECT_FALSE(open.Allow(1.0));
  EXPECT_TRUE(open.Allow(std::nextafter(0.0, 1.0)));
  EXPECT_TRUE(open.Allow(std::nextafter(1.0, 0.0)));
  for (const double number : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    EXPECT_FALSE(Limits().Allow(number));
    EXPECT_FALSE(Limits().Allow(std::vector<double>{1, number}));
  }
  EXPECT_TRUE(Limits().Allow(Value()));
}

TEST(Flags, LimitsAndValuesAsText) {
  EXPECT_EQ(Limits().Text(), "");
  EXPECT_EQ((Limits{.minimum = 1}.Text()), "1 or more");
  EXPECT_EQ((Limits{.minimum = 0, .minimum_excluded = true}.Text()), "more than 0");
  EXPECT_EQ((Limits{.minimum = 0, .maximum = 1, .maximum_excluded = true}.Text()), "0 to 1 (excluded)");
  EXPECT_EQ((Limits{.minimum = 0, .maximum = 1, .minimum_excluded = true, .maximum_excluded = true}.Text()),
            "0 to 1 (both excluded)");
  EXPECT_EQ((Limits{.choices = {"a", "b"}}.Text()), "one of a | b");
  EXPECT_EQ(ToText(0.1), "0.1");
  EXPECT_EQ(ToText(1e-4), "0.0001");
  EXPECT_EQ(ToText(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(ToText(int64_t{10'000'000}), "10000000");
  EXPECT_EQ(ToText(std::vector<double>{0.485, 1}), "0.485,1");
  EXPECT_EQ(ToText(true), "true");
  EXPECT_EQ(ToText(Value()), "");
}

TEST(DescribeOptimizer, ShowsTheFlagsThatItReads) {
  Config config;
  config.optimizer.lr_in_momentum = true;
  config.optimizer.clip_norm = 1;
  EXPECT_EQ(DescribeOptimizer(config), "sgd, momentum 0.9 (of steps), weight decay 0.0001, clipped to 1");
  config.optimizer.name = "lars";  // which does not read the first one
  EXPECT_EQ(DescribeOptimizer(config), "lars, momentum 0.9, trust 0.001, weight decay 0.0001, clipped to 1");
}

}  // namespace
}  // namespace dtrain::config
