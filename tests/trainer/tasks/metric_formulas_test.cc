// The edges of the formulas. tests/interop/test_fine_tuning.py compares them with scikit-learn and scipy.
#include "trainer/tasks/metric_formulas.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"
#include "trainer/tasks/class_balance.h"

namespace dtrain::tasks {
namespace {

using testing::ElementsAre;

using Numbers = std::vector<double>;

// Samples of four classes: 0 0 0 1 1 2, taken for 0 0 1 1 2 1. Class 3 occurs nowhere.
TEST(MetricFormulas, ClassesThatOccurNowhereDoNotCount) {
  const ClassCounts counts = CountsIn({2, 1, 0, 0,  //
                                       0, 1, 1, 0,  //
                                       0, 1, 0, 0,  //
                                       0, 0, 0, 0});
  EXPECT_EQ(counts.correct, (Numbers{2, 1, 0, 0}));
  EXPECT_EQ(counts.predicted, (Numbers{2, 3, 1, 0}));
  EXPECT_EQ(counts.actual, (Numbers{3, 2, 1, 0}));
  EXPECT_DOUBLE_EQ(Accuracy(counts), 50);
  EXPECT_DOUBLE_EQ(BalancedAccuracy(counts), 100 * (2.0 / 3 + 1.0 / 2 + 0) / 3);
  EXPECT_DOUBLE_EQ(MacroF1(counts), 100 * (0.8 + 0.4 + 0) / 3);
  // (3·6 − (2·3 + 3·2 + 1·1)) / √((36 − 14)(36 − 14))
  EXPECT_DOUBLE_EQ(MatthewsCorrelation(counts), 5.0 / 22);
}

// A class that is predicted but never right counts as an F1 score of 0, as in scikit-learn.
TEST(MetricFormulas, AClassThatIsOnlyPredictedCounts) {
  const Numbers correct = {3, 0}, predicted = {3, 1}, actual = {4, 0};
  EXPECT_DOUBLE_EQ(MacroF1({correct, predicted, actual}), 100 * 6.0 / 7 / 2);
  EXPECT_EQ(MatthewsCorrelation({correct, predicted, actual}), 0);
}

TEST(MetricFormulas, WithoutVariationThereIsNoCorrelation) {
  const Numbers x = {1, 2, 3}, same = {0.1, 0.1, 0.1}, with_nan = {1, NAN, 2};
  EXPECT_TRUE(std::isnan(PearsonCorrelation(x, same)));
  EXPECT_TRUE(std::isnan(SpearmanCorrelation(same, x)));
  EXPECT_TRUE(std::isnan(PearsonCorrelation(x, with_nan)));
  EXPECT_TRUE(std::isnan(SpearmanCorrelation(x, with_nan)));
  EXPECT_TRUE(std::isnan(PearsonCorrelation({}, {})));
  EXPECT_TRUE(std::isnan(SpearmanCorrelation(Numbers{1}, Numbers{2})));
}

TEST(ClassWeights, FollowFromTheSamples) {
  const std::vector<int64_t> counts = {1, 4, 0, 100};
  EXPECT_TRUE(ClassWeights("none", counts, {}).empty());
  const double root_of_4 = 0.5, root_of_100 = 0.1;
  for (const auto& [choice, of_4, of_100] :
       {std::tuple{"inverse", 0.25, 0.01},
        {"sqrt", root_of_4, root_of_100},
        {"effective", 0.001 / (1 - std::pow(0.999, 4)), 0.001 / (1 - std::pow(0.999, 100))}}) {
    const std::vector<double> weights = ClassWeights(choice, counts, {});
    ASSERT_EQ(weights.size(), counts.size());
    EXPECT_NEAR(weights[1] / weights[0], of_4, 1e-12) << choice;
    EXPECT_NEAR(weights[3] / weights[0], of_100, 1e-12) << choice;
    EXPECT_EQ(weights[2], 0) << choice;
    EXPECT_NEAR(weights[0] + 4 * weights[1] + 100 * weights[3], 105, 1e-9) << choice;
  }
}

TEST(ClassWeights, OfAFileAreThoseItNames) {
  const TemporaryFolder folder;
  const std::vector<int64_t> counts = {1, 2, 3};
  const std::vector<std::string> names = {"cat", "dog, grey", "ox"};
  const auto of = [&](const std::string& text) { return ClassWeights(folder.Write("w.csv", text), counts, names); };
  EXPECT_THAT(of("ox,3\ndog, grey,0.5\r\n\ncat,1"), ElementsAre(1, 0.5, 3));
  EXPECT_THAT(of("1\n0\n2.5\n"), ElementsAre(1, 0, 2.5));
  EXPECT_THAT(of("\"ox\",\"3\"\r\n\"dog, grey\",0.5\ncat,1\n"), ElementsAre(1, 0.5, 3)) << "in quotation marks";
  EXPECT_THAT(ClassWeights(folder.Write("w.csv", R"("e""f",2)"), {1}, {"e\"f"}), ElementsAre(2));
  for (const auto& [list, words] : {std::pair{"cat,1\ncow,2\n", "line 2: 'cow' is not a class of the data"},
                                    {"cat,1\ncat,2\n", "line 2: class cat has a weight already"},
                                    {"cat,1\nox,2\n", "class dog, grey has no weight"},
                                    {"1\n2\n3\n4\n", "line 4: there are only 3 classes"},
                                    {"1\n-2\n3\n", "line 2: expected a finite weight"},
                                    {"1\nnan\n3\n", "line 2: expected a finite weight"},
                                    {"0\n0\n0\n", "all weights are 0"}}) {
    const char* text = list;
    EXPECT_ERROR(words, of(text)) << text;
  }
  EXPECT_ERROR("nor a file", ClassWeights("invers", counts, names));
}

TEST(LabelWeights, AreThoseOfTheSamplesThatHaveTheLabel) {
  const std::vector<int64_t> counts = {20, 50, 0, 100};  // of 100 samples
  EXPECT_THAT(LabelWeights("inverse", counts, 100, {}), ElementsAre(4, 1, 1, 1));
  EXPECT_THAT(LabelWeights("sqrt", counts, 100, {}), ElementsAre(2, 1, 1, 1));
  const std::vector<double> effective = LabelWeights("effective", counts, 100, {});
  EXPECT_NEAR(effective[0], (1 - std::pow(0.999, 80)) / (1 - std::pow(0.999, 20)), 1e-12);
  const TemporaryFolder folder;
  EXPECT_THAT(LabelWeights(folder.Write("w.csv", "b,3\na,0.5\n"), {7, 1}, 9, {"a", "b"}), ElementsAre(0.5, 3));
}

}  // namespace
}  // namespace dtrain::tasks
