// The edges of the formulas. tests/interop/test_fine_tuning.py compares them with scikit-learn and scipy.
#include "trainer/tasks/metric_formulas.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace dtrain::tasks {
namespace {

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

TEST(MetricFormulas, PerfectAndOppositePredictions) {
  const Numbers three = {3, 3}, none = {0, 0};
  EXPECT_DOUBLE_EQ(MatthewsCorrelation({three, three, three}), 1);
  EXPECT_DOUBLE_EQ(MatthewsCorrelation({none, three, three}), -1);
  EXPECT_EQ(MacroF1({none, three, three}), 0);
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

}  // namespace
}  // namespace dtrain::tasks
