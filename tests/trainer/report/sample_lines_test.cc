#include "trainer/report/predictions.h"

#include <gtest/gtest.h>

namespace dtrain::report {
namespace {

const EvaluatedSample kImage{.file = "val/cat/1.jpg", .target = 0, .loss = 2.5, .guesses = {{1, 0.75}, {0, 0.25}}};

TEST(SampleLines, ImagesHaveTheirClassesByName) {
  const SampleLines csv(/*is_csv=*/true, /*guesses=*/2, {"cat", "=dog"}, /*texts=*/{});
  EXPECT_EQ(csv.Header(), "file,label,prediction,loss,class_1,probability_1,class_2,probability_2\n");
  EXPECT_EQ(csv.Line(kImage), "val/cat/1.jpg,cat,\"'=dog\",2.5,\"'=dog\",0.75,cat,0.25\n");
  const SampleLines json(/*is_csv=*/false, 2, {"cat", "dog"}, {});
  EXPECT_EQ(json.Header(), "");
  EXPECT_EQ(json.Line(kImage), R"({"file":"val/cat/1.jpg","label":"cat","prediction":"dog","loss":2.5,)"
                               R"("probabilities":{"dog":0.75,"cat":0.25}})"
                               "\n");
}

TEST(SampleLines, SentencesHaveTheirTextsAndARegressionItsNumbers) {
  const EvaluatedSample sample{
      .file = "dev.tsv at byte 9", .texts = {"one, two", "b"}, .target = 3.5, .loss = 0.25, .value = 4};
  const SampleLines csv(/*is_csv=*/true, /*guesses=*/0, {}, /*texts=*/{"text", "pair"});
  EXPECT_EQ(csv.Header(), "file,text,pair,label,prediction,loss\n");
  EXPECT_EQ(csv.Line(sample), "dev.tsv at byte 9,\"one, two\",b,3.5,4,0.25\n");
  const SampleLines json(/*is_csv=*/false, 0, {}, {"text", "pair"});
  EXPECT_EQ(json.Line(sample),
            R"({"file":"dev.tsv at byte 9","text":"one, two","pair":"b","label":3.5,"prediction":4.0,"loss":0.25})"
            "\n");
}

TEST(SampleLines, LabelsWithoutNamesAreNumbers) {
  EXPECT_EQ(SampleLines(true, 2, {}, {}).Line(kImage), "val/cat/1.jpg,0,1,2.5,1,0.75,0,0.25\n");
}

}  // namespace
}  // namespace dtrain::report
