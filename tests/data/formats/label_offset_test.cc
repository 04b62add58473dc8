#include "data/formats/label_offset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/formats/record_bytes.h"

namespace dtrain::data {
namespace {

using testing::HasSubstr;

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
  EXPECT_THAT(MessageAndHint([] {
                ResolveLabels({0, 1}, 1, {}, Place);
              }),
              HasSubstr("record of 0: label 0 is below the first label, --label_offset=1"));
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
  EXPECT_THAT(MessageAndHint([&] {
                WithNames({.names = {"b", "a"}, .count = 2}, names, "f");
              }),
              HasSubstr("f names 2 classes, which are not the training split's classes"));
  EXPECT_THAT(MessageAndHint([&] { WithNames({.count = 3}, names, "f"); }), HasSubstr("but the training split has 3"));
}

}  // namespace
}  // namespace dtrain::data
