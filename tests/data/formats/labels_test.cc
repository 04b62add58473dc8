#include "data/formats/labels.h"

#include <gmock/gmock.h>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Names = std::vector<std::string>;

std::vector<SeenLabel> Seen(const Names& names) {
  std::vector<SeenLabel> seen;
  for (const std::string& name : names) seen.push_back({name, "FILE line " + std::to_string(seen.size() + 2)});
  return seen;
}

TEST(Labels, NumbersAreDecimal) {
  EXPECT_EQ(DecimalNumber("-0.25"), -0.25);
  EXPECT_EQ(DecimalNumber("1e-3"), 1e-3);
  for (const char* text : {"", "1,5", "0x1", "inf", "nan", "1 ", "1e999"}) EXPECT_FALSE(DecimalNumber(text)) << text;
}

TEST(Labels, FractionsMakeARegression) {
  struct Case {
    Names labels;
    bool are_decimals, have_fractions;
  };
  for (const auto& [labels, are_decimals, have_fractions] : {Case{{"1", "3.8"}, true, true},
                                                             {{"1.0", "0.0"}, true, false},
                                                             {{"1", "0"}, false, false},
                                                             {{"1.5", "good"}, false, false},
                                                             {{}, false, false}}) {
    EXPECT_EQ(AreDecimals(labels), are_decimals);
    EXPECT_EQ(HaveFractions(labels), have_fractions);
  }
}

TEST(Labels, ClassesAreSortedUnlessTheirOrderIsKnown) {
  EXPECT_THAT(ClassesOf(Seen({"10", "9", "-1"}), {}), ElementsAre("-1", "9", "10"));
  EXPECT_THAT(ClassesOf(Seen({"b", "10", "9"}), {}), ElementsAre("10", "9", "b"));
  EXPECT_THAT(ClassesOf(Seen({"a", "b"}), {.preferred_order = {"b", "a"}}), ElementsAre("b", "a"));
  EXPECT_THAT(ClassesOf(Seen({"a", "b"}), {.preferred_order = {"b", "a", "c"}}), ElementsAre("a", "b"));
  EXPECT_THAT(ClassesOf(Seen({"a"}), {.listed = {"c", "a"}, .preferred_order = {"a"}}), ElementsAre("c", "a"));
  EXPECT_THAT(ClassesOf(Seen({"a"}), {.names = {"b", "a"}, .listed = {"a"}}), ElementsAre("b", "a"));
}

TEST(Labels, UnknownOnesAreNamed) {
  EXPECT_THAT(MessageOf([] {
                ClassesOf(Seen({"a", "c"}), {.names = {"a", "b"}});
              }),
              HasSubstr("FILE line 3: the label 'c' is none of the classes that the training data has: 'a', 'b'"));
  EXPECT_THAT(MessageOf([] { ClassesOf(Seen({"c"}), {.listed = {"a"}}); }), HasSubstr("classes in classes.txt: 'a'"));
  const auto decimals = [] { ClassesOf(Seen({"1", "2.5"}), {}); };
  EXPECT_THAT(MessageOf(decimals), HasSubstr("FILE line 3: the label '2.5' is a decimal number"));
  EXPECT_THAT(HintOf(decimals), HasSubstr("--task=text_regression"));
}

TEST(Labels, OfNumbersToPredictAreNoClassesBecauseSomeAreBad) {
  for (const Names& labels : {Names{"3.8", "nan", "2.5"}, {"1", "n/a", "0.5"}, {"1", "inf", "2"}}) {
    EXPECT_THAT(MessageOf([&] { ClassesOf(Seen(labels), {}); }),
                HasSubstr("FILE line 3: the label '" + labels[1] + "' is no decimal number, but '"));
    EXPECT_EQ(ClassesOf(Seen(labels), {.listed = labels}), labels);
  }
  EXPECT_THAT(ClassesOf(Seen({"nan", "none"}), {}), ElementsAre("nan", "none"));
}

TEST(Labels, AreListedInAFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(ListedClasses(folder.path()), ElementsAre());
  folder.Write("classes.txt", "not good\r\ngood\n\n");
  EXPECT_THAT(ListedClasses(folder.path()), ElementsAre("not good", "good"));
  folder.Write("classes.txt", "a\nb\na\n");
  EXPECT_THAT(MessageOf([&] { ListedClasses(folder.path()); }), HasSubstr("classes.txt line 3: the class 'a'"));
}

}  // namespace
}  // namespace dtrain::data
