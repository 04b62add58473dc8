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
  EXPECT_ERROR("FILE line 3: the label 'c' is none of the classes that the training data has: 'a', 'b'",
               ClassesOf(Seen({"a", "c"}), {.names = {"a", "b"}}));
  EXPECT_ERROR("classes in classes.txt: 'a'", ClassesOf(Seen({"c"}), {.listed = {"a"}}));
  const auto decimals = [] { ClassesOf(Seen({"1", "2.5"}), {}); };
  EXPECT_THAT(MessageOf(decimals), HasSubstr("FILE line 3: the label '2.5' is a decimal number"));
  EXPECT_THAT(HintOf(decimals), HasSubstr("--task=text_regression"));
}

TEST(Labels, OfNumbersToPredictAreNoClassesBecauseSomeAreBad) {
  for (const Names& labels : {Names{"3.8", "nan", "2.5"}, {"1", "n/a", "0.5"}, {"1", "inf", "2"}}) {
    EXPECT_ERROR("FILE line 3: the label '" + labels[1] + "' is no decimal number, but others are",
                 ClassesOf(Seen(labels), {}));
    EXPECT_EQ(ClassesOf(Seen(labels), {.listed = labels}), labels);
  }
  EXPECT_THAT(ClassesOf(Seen({"nan", "none"}), {}), ElementsAre("nan", "none"));
}

TEST(Labels, AreListedInAFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(ListedClasses(folder.path()), ElementsAre());
  folder.Write("classes.txt", "\xEF\xBB\xBFnot good\r\ngood\n\n");
  EXPECT_THAT(ListedClasses(folder.path()), ElementsAre("not good", "good"));
  folder.Write("classes.txt", "a\nb\na\n");
  EXPECT_ERROR("classes.txt line 3: the class 'a' is in line 1, too", ListedClasses(folder.path()));
  EXPECT_ERROR("classes.txt line 3: the class 'a' is in line 1, too", ReadClassNames(folder.path()));
  folder.Write("classes.txt", "a\rb\n");  // refused where names are used
  EXPECT_THAT(ListedClasses(folder.path()), ElementsAre("a\rb"));
}

std::string Place(int64_t label) { return "record of " + std::to_string(label); }

TEST(LabelOffset, FromZeroFromOneOrAsTheUserSays) {
  struct Case {
    std::vector<int64_t> labels;
    std::optional<int64_t> said;
    int64_t offset;
  };
  for (const Case& c : {Case{{0, 1, 2}, {}, 0}, Case{{3, 1, 2, 1}, {}, 1}, Case{{0}, {}, 0}, Case{{1}, {}, 1},
                        Case{{-1, 1, 2}, {}, 1}, Case{{-1}, {}, 0}, Case{{5, 9}, 5, 5}, Case{{1, 2}, 0, 0}}) {
    EXPECT_EQ(ResolveLabels(c.labels, c.said, {}, Place).label_offset, c.offset);
  }
}

TEST(LabelOffset, RefusesToGuess) {
  for (const auto& [labels, odd] : {std::pair{std::vector<int64_t>{0, 2}, 2}, {{3, 2}, 2}, {{3, 1}, 3}}) {
    EXPECT_THAT(MessageAndHint([&, of = labels] { ResolveLabels(of, std::nullopt, {}, Place); }),
                testing::AllOf(HasSubstr(Place(odd) + ": label " + std::to_string(odd) + "; the 2 different labels"),
                               HasSubstr("--label_offset=0")));
  }
  EXPECT_ERROR("record of 0: label 0 is below the first label, --label_offset=1", ResolveLabels({0, 1}, 1, {}, Place));
}

// For another split or an evaluation, the known classes decide: a part may lack classes, so nothing is guessed from its
// labels.
TEST(LabelOffset, KnownClassesDecide) {
  struct Case {
    std::vector<int64_t> labels;
    Classes known;
    int64_t offset, count;
  };
  for (const Case& c : {Case{{1, 2}, {.count = 3, .label_offset = 0}, 0, 3}, Case{{1, 2}, {.label_offset = 1}, 1, 2},
                        Case{{2}, {.count = 3, .label_offset = 1}, 1, 3}, Case{{0, 2}, {.count = 4}, 0, 4},
                        Case{{2, 4}, {.count = 4}, 1, 4}, Case{{-1}, {.count = 4}, 0, 4}}) {
    const Classes found = ResolveLabels(c.labels, std::nullopt, c.known, Place);
    EXPECT_EQ(found.label_offset, c.offset);
    EXPECT_EQ(found.count, c.count);
  }
}

TEST(LabelOffset, WhatIsOutsideKnownClassesIsRefused) {
  const auto message = [](const std::vector<int64_t>& labels, std::optional<int64_t> said, const Classes& known) {
    return MessageAndHint([&] { ResolveLabels(labels, said, known, Place); });
  };
  EXPECT_THAT(message({0, 3, 5}, {}, {.count = 3, .label_offset = 0}),
              HasSubstr("record of 3: label 3 is outside the 3 classes, whose labels are 0 to 2"));
  EXPECT_THAT(message({1, 4}, {}, {.count = 3, .label_offset = 1}), HasSubstr("label 4 is outside"));
  EXPECT_THAT(message({0, 1}, {}, {.count = 3, .label_offset = 1}),
              HasSubstr("record of 0: label 0 is below the first label of the training split, 1"));
  EXPECT_THAT(message({0, 3}, 0, {.count = 3}), HasSubstr("label 3 is outside"));
  EXPECT_THAT(message({0, 3}, {}, {.count = 3}), HasSubstr("label 3 is outside"));
  EXPECT_THAT(message({1, 2}, {}, {.count = 3}),
              HasSubstr("record of 1: labels from 1 to 2 for 3 classes may count from 0 or from 1"));
}

TEST(Classes, NamesMustAgree) {
  const std::vector<std::string> names = {"a", "b"};
  EXPECT_EQ(WithNames({}, names, "f"), (Classes{.names = names, .count = 2}));
  EXPECT_EQ(WithNames({.names = names, .count = 2}, names, "f").names, names);
  EXPECT_EQ(WithNames({.names = names, .count = 2}, {}, "f").names, names);
  EXPECT_ERROR("f names 2 classes, which are not the training split's classes",
               WithNames({.names = {"b", "a"}, .count = 2}, names, "f"));
  EXPECT_ERROR("but the training split has 3", WithNames({.count = 3}, names, "f"));
}

}  // namespace
}  // namespace dtrain::data
