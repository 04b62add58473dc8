#include "trainer/launch/node_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/message_of.h"
#include "trainer/errors.h"

namespace dtrain::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(NodeList, FirstName) {
  const std::map<std::string, std::string> cases = {{"gpu[01-03,07],login2", "gpu01"},
                                                    {"n[9-11]", "n9"},
                                                    {"r[1-2]n[3,5]-ib,x", "r1n3-ib"},
                                                    {"x,r[1-2]", "x"},
                                                    {"one-host.example", "one-host.example"}};
  for (const auto& [list, first] : cases) EXPECT_EQ(FirstNode(list), first);
}

TEST(NodeList, ManyBracketsNeedNoStack) {
  std::string list = "n";
  for (int i = 0; i < 40'000; ++i) list += "[1]";  // about as long as an environment variable can be
  EXPECT_EQ(FirstNode(list), "n" + std::string(40'000, '1'));
}

TEST(NodeList, WhatIsNone) {
  for (const char* bad : {"", ",", "a[", "a[1", "a]1", "a[1]]", "a[[1]]", "a[]", "a[x]", "a[-1]", "a[99999999999]"}) {
    EXPECT_THAT(MessageOf([&] { FirstNode(bad); }),
                HasSubstr("the node list '" + std::string(bad) + "' cannot be read"));
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
