#include "trainer/control/gathering.h"

#include <gtest/gtest.h>

namespace dtrain::control {
namespace {

using Contact = Gathering::Contact;

TEST(Gathering, ComparesAsSoonAsBothAreThere) {
  Gathering gathering(3);
  EXPECT_FALSE(gathering.Ready(2, {{"lr", 0.2}, {"own", 1}}, "host c"));
  EXPECT_FALSE(gathering.Ready(2, {{"lr", 0.1}}, "host c"));  // the first one counts
  const auto found = gathering.Ready(0, {{"lr", 0.1}}, "host a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->message, "rank 2 disagrees with rank 0: lr is 0.2, not 0.1 (host c)");
  EXPECT_EQ(found->hint, "start all ranks with the same command");
  EXPECT_FALSE(gathering.all_are_ready());
  EXPECT_FALSE(gathering.Ready(1, {{"lr", 0.1}, {"own", 2}}, "host b"));
  EXPECT_TRUE(gathering.all_are_ready());
}

TEST(Gathering, TheHintDependsOnTheKey) {
  for (const auto& [key, hint] : {std::pair("build", "copy the same program"), std::pair("data_x", "the same files")}) {
    Gathering gathering(2);
    EXPECT_FALSE(gathering.Ready(0, {{key, 1}}, ""));
    EXPECT_EQ(gathering.Ready(1, nlohmann::json::object(), "")->hint.find(hint), 0U) << key;
  }
}

TEST(Gathering, NamesWhoIsMissingAndWhy) {
  Gathering gathering(5);
  EXPECT_FALSE(gathering.Ready(0, nlohmann::json::object(), ""));
  EXPECT_FALSE(gathering.Ready(3, nlohmann::json::object(), ""));
  const Contact contacts[] = {Contact::kAnswers, Contact::kNone, Contact::kAnswers, Contact::kSilent, Contact::kNone};
  EXPECT_EQ(gathering.Missing([&](int rank) { return contacts[rank]; }),
            "waiting for 4 of 5 ranks: 1, 4 not there; 2 still preparing; 3 does not answer");
}

TEST(RankList, ReadsAsAPersonWouldWriteIt) {
  using Ranks = std::vector<int>;
  for (const auto& [ranks, text] : {std::pair(Ranks{}, ""), std::pair(Ranks{3}, "3"), std::pair(Ranks{1, 3}, "1, 3"),
                                    std::pair(Ranks{1, 2}, "1, 2"), std::pair(Ranks{1, 2, 3, 7}, "1-3, 7")}) {
    RankList list;
    for (const int rank : ranks) list.Add(rank);
    EXPECT_EQ(list.count(), static_cast<int>(ranks.size()));
    EXPECT_EQ(list.Text(), text);
  }
  RankList all, odd;
  for (int rank = 1; rank < 1'000'000; ++rank) all.Add(rank);
  for (int rank = 1; rank < 1'000'000; rank += 2) odd.Add(rank);
  EXPECT_EQ(all.Text(), "1-999999");
  EXPECT_EQ(odd.Text(), "1, 3, 5, 7, 9, 11, 13, 15, 17, 19 and 499990 more");
}

}  // namespace
}  // namespace dtrain::control
