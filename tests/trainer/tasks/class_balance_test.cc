#include "trainer/tasks/class_balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::tasks {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  for (const auto& [text, words] : {std::pair{"cat,1\ncow,2\n", "line 2: 'cow' is not a class of the data"},
                                    {"cat,1\ncat,2\n", "line 2: class cat has a weight already"},
                                    {"cat,1\nox,2\n", "class dog, grey has no weight"},
                                    {"1\n2\n3\n4\n", "line 4: there are only 3 classes"},
                                    {"1\n-2\n3\n", "line 2: expected a finite weight"},
                                    {"1\nnan\n3\n", "line 2: expected a finite weight"},
                                    {"0\n0\n0\n", "all weights are 0"}}) {
    EXPECT_THAT(MessageOf([&, text = text] { of(text); }), HasSubstr(words)) << text;
  }
  EXPECT_THAT(MessageOf([&] { ClassWeights("invers", counts, names); }), HasSubstr("nor a file"));
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
