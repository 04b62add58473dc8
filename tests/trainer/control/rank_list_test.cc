#include "trainer/control/rank_list.h"

#include <gtest/gtest.h>

namespace dtrain::distributed {
namespace {

std::string TextOf(const std::vector<int>& ranks) {
  RankList list;
  for (const int rank : ranks) list.Add(rank);
  EXPECT_EQ(list.count(), static_cast<int>(ranks.size()));
  return list.Text();
}

TEST(RankList, ReadsAsAPersonWouldWriteIt) {
  EXPECT_EQ(TextOf({}), "");
  EXPECT_EQ(TextOf({3}), "3");
  EXPECT_EQ(TextOf({1, 3}), "1, 3");
  EXPECT_EQ(TextOf({1, 2}), "1, 2");
  EXPECT_EQ(TextOf({1, 2, 3, 7}), "1-3, 7");
}

TEST(RankList, OfManyTellsTheFirst) {
  RankList all, odd;
  for (int rank = 1; rank < 1'000'000; ++rank) all.Add(rank);
  for (int rank = 1; rank < 1'000'000; rank += 2) odd.Add(rank);
  EXPECT_EQ(all.Text(), "1-999999");
  EXPECT_EQ(odd.Text(), "1, 3, 5, 7, 9, 11, 13, 15, 17, 19 and 499990 more");
}

}  // namespace
}  // namespace dtrain::distributed
