// Compares the table with the struct: every flag reads and stores its own field, and gflags has the same defaults.
#include "trainer/config/flags.h"

#include <gflags/gflags.h>
#include <gmock/gmock.h>

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

TEST(Flags, WhatChoosesSamplesIsTheSameOnAResume) {
  EXPECT_THAT(FlagsWith(&FlagTraits::same_on_resume),
              testing::IsSupersetOf({"seed", "split_seed", "shuffle", "val_fraction", "val_fold", "group_column",
                                     "group_pattern", "freeze", "optimizer"}));
}

TEST(Flags, OfFilesAndFoldersSayWhetherTheyAreReadOrWritten) {
  const std::regex speaks_of_one("FILE|Folder |File |(a|this) file|config\\.json");
  for (const Flag& flag : Flags()) {
    const bool names_path = flag.kind == Kind::kText && flag.limits.choices.empty() &&
                            std::regex_search(flag.help, speaks_of_one) && !flag.name.ends_with("_split");
    EXPECT_FALSE(names_path && flag.traits.path == data::PathUse::kNone) << flag.name;
  }
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
