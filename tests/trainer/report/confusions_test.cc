#include "trainer/report/confusions.h"

#include <gmock/gmock.h>

#include <tuple>
#include <utility>

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
  EXPECT_EQ(ScoresCsv(confusions.Scores()),
            "class,samples,correct,accuracy,most_taken_for,times,precision,recall,f1\n"
            "cat,10,8,80.00,\"big, \"\"grey\"\" dog\",2,88.89,80.00,84.21\n"
            "\"big, \"\"grey\"\" dog\",0,0,,,0,0.00,,0.00\n"
            "\x1b[31mox,10,6,60.00,\"big, \"\"grey\"\" dog\",3,100.00,60.00,75.00\n");
  EXPECT_THAT(
      confusions.Lines(),
      ElementsAre("accuracy 70.00 % of 20 samples, 95 % interval 48.10 to 85.45 %; always guessing 'cat', the "
                  "most frequent class: 50.00 %",
                  "  cat         recall 80.00 % of 10, precision 88.89 %, F1 84.21 %, most often taken for big, "
                  "\"grey\" dog (2)",
                  "  \\x1b[31mox  recall 60.00 % of 10, precision 100.00 %, F1 75.00 %, most often taken for "
                  "big, \"grey\" dog (3)"));
}

// scipy.stats.binomtest(k, n).proportion_ci(method="wilson")
TEST(Confusions, TheIntervalIsWilsons) {
  for (const auto& [correct, samples, low, high] :
       {std::tuple(0, 10, 0.0, 27.7533), {10, 10, 72.2467, 100.0}, {96, 100, 90.1629, 98.4337}}) {
    EXPECT_NEAR(WilsonInterval(correct, samples).low, low, 1e-3);
    EXPECT_NEAR(WilsonInterval(correct, samples).high, high, 1e-3);
  }
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
  ASSERT_EQ(lines.size(), 22U);
  EXPECT_EQ(lines[1], "the 20 classes with the lowest recall, of 30:");
  EXPECT_EQ(lines[2], "  1   recall 3.33 % of 30, precision 100.00 %, F1 6.45 %, most often taken for 0 (29)");
}

}  // namespace
}  // namespace dtrain::report
