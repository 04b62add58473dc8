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
    EXPECT_EQ(ResolveLabelOffset(c.labels, c.said, Place), c.offset);
  }
}

TEST(LabelOffset, RefusesToGuess) {
  for (const auto& [labels, odd] : {std::pair{std::vector<int64_t>{0, 2}, 2}, {{3, 2}, 2}, {{3, 1}, 3}}) {
    EXPECT_THAT(MessageOf([&, of = labels] { ResolveLabelOffset(of, std::nullopt, Place); }),
                testing::AllOf(HasSubstr(Place(odd) + ": label " + std::to_string(odd) + "; the 2 different labels"),
                               HasSubstr("--label_offset=0")));
  }
  EXPECT_THAT(MessageOf([] {
                ResolveLabelOffset({0, 1}, 1, Place);
              }),
              HasSubstr("record of 0: label 0 where --label_offset=1"));
}

}  // namespace
}  // namespace dtrain::data
