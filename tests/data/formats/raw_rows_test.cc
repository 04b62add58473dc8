#include "data/formats/raw_rows.h"

#include <gtest/gtest.h>

#include <set>

#include "data/error.h"

namespace dtrain::data {
namespace {

TEST(Synthetic, IsTheSameForTheSameArguments) {
  const Synthetic one(100, 10, 4, 6), same(100, 10, 4, 6), other(100, 10, 4, 6, 1);
  std::set<int64_t> labels;
  for (int64_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one.Read(i), same.Read(i));
    EXPECT_EQ(one.Label(i), same.Label(i));
    EXPECT_EQ(one.Read(i).size(), 4U * 6U * 3U);
    labels.insert(one.Label(i));
  }
  EXPECT_EQ(labels.size(), 10U);
  EXPECT_NE(one.Read(0), other.Read(0));
  EXPECT_EQ(one.fingerprint(), same.fingerprint());
  EXPECT_NE(one.fingerprint(), other.fingerprint());
  EXPECT_EQ(one.num_classes(), 10);
}

TEST(Synthetic, RefusesNothing) {
  EXPECT_THROW(Synthetic(0, 10, 4, 4), DataError);
  EXPECT_THROW(Synthetic(10, 0, 4, 4), DataError);
}

}  // namespace
}  // namespace dtrain::data
