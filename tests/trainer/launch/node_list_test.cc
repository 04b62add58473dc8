#include "trainer/launch/node_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/errors.h"

namespace dtrain::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(NodeList, Names) {
  EXPECT_THAT(ExpandNodeList("gpu[01-03,07],login2"), ElementsAre("gpu01", "gpu02", "gpu03", "gpu07", "login2"));
  EXPECT_THAT(ExpandNodeList("n[9-11]"), ElementsAre("n9", "n10", "n11"));
  EXPECT_THAT(ExpandNodeList("n[098-101]"), ElementsAre("n098", "n099", "n100", "n101"));
  EXPECT_THAT(ExpandNodeList("r[1-2]n[3,5]-ib,x"), ElementsAre("r1n3-ib", "r1n5-ib", "r2n3-ib", "r2n5-ib", "x"));
  EXPECT_THAT(ExpandNodeList("one-host.example"), ElementsAre("one-host.example"));
  EXPECT_EQ(ExpandNodeList("n[1-65536]").size(), 65536u);
}

TEST(NodeList, WhatIsNone) {
  for (const char* bad : {"", ",", "a,", "a[", "a[1", "a]1", "a[1]]", "a[[1]]", "a[]", "a[x]", "a[1-]", "a[-1]",
                          "a[3-1]", "a[1-65537]", "a[1-99999999999]", "a[1-300][1-300]", "a[1-40000],b[1-40000]"}) {
    try {
      ExpandNodeList(bad);
      ADD_FAILURE() << bad;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("the node list '" + std::string(bad) + "' cannot be read"));
    }
  }
}

TEST(NodeList, Counts) {
  EXPECT_THAT(ExpandCounts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(ExpandCounts("4"), ElementsAre(4));
  for (const char* bad : {"", "x", "2(x)", "2(x0)", "2(x3", "0", "2(x99999999)"}) {
    EXPECT_THROW(ExpandCounts(bad), UsageError) << bad;
  }
}

}  // namespace
}  // namespace dtrain::launch
