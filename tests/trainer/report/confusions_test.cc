#include "trainer/report/confusions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::report {
namespace {

using testing::ElementsAre;

TEST(Confusions, FilesHaveAnOrderAndNames) {
  const Confusions confusions({8, 2, 0,  //
                               0, 0, 0,  //
                               1, 3, 6},
                              {"cat", "big, \"grey\" dog", "\x1b[31mox"});
  EXPECT_EQ(confusions.MatrixCsv(),
            "true class,cat,\"big, \"\"grey\"\" dog\",\x1b[31mox\n"
            "cat,8,2,0\n"
            "\"big, \"\"grey\"\" dog\",0,0,0\n"
            "\x1b[31mox,1,3,6\n");
  EXPECT_EQ(confusions.AccuracyCsv(),
            "class,samples,correct,accuracy,most_taken_for,times\n"
            "cat,10,8,80.00,\"big, \"\"grey\"\" dog\",2\n"
            "\"big, \"\"grey\"\" dog\",0,0,,,0\n"
            "\x1b[31mox,10,6,60.00,\"big, \"\"grey\"\" dog\",3\n");
  EXPECT_THAT(confusions.Lines(),
              ElementsAre("  cat         80.00 % of 10, most often taken for big, \"grey\" dog (2)",
                          "  \\x1b[31mox  60.00 % of 10, most often taken for big, \"grey\" dog (3)"));
}

TEST(Confusions, WithoutNamesClassesAreTheirLabels) {
  EXPECT_EQ(Confusions({1, 0, 0, 2}, {}).MatrixCsv(), "true class,0,1\n0,1,0\n1,0,2\n");
}

TEST(Confusions, OfManyClassesTheWorstAreShown) {
  constexpr size_t kClasses = 30;
  std::vector<int64_t> counts(kClasses * kClasses);
  for (size_t i = 0; i < kClasses; ++i) {
    counts[i * kClasses + i] = static_cast<int64_t>(i);
    counts[i * kClasses] += static_cast<int64_t>(kClasses - i);
  }
  const std::vector<std::string> lines = Confusions(counts, {}).Lines();
  ASSERT_EQ(lines.size(), 21U);
  EXPECT_EQ(lines[0], "the 20 classes with the lowest accuracy, of 30:");
  EXPECT_EQ(lines[1], "  1   3.33 % of 30, most often taken for 0 (29)");
}

}  // namespace
}  // namespace dtrain::report
