#include "trainer/report/csv.h"

#include <gtest/gtest.h>

#include <utility>

namespace dtrain::report {
namespace {

const std::vector<std::string> kNames = {"cat", "dog, \"big\""};

TEST(Predictions, CsvHasAColumnForEachGuess) {
  EXPECT_EQ(CsvHeader(),
            "file,class_1,name_1,probability_1,class_2,name_2,probability_2,class_3,name_3,probability_3,"
            "class_4,name_4,probability_4,class_5,name_5,probability_5,error\n");
  EXPECT_EQ(CsvLine({"a.jpg", {{1, 0.75}, {0, 0.1}}}, kNames),
            "a.jpg,1,\"dog, \"\"big\"\"\",0.75,0,cat,0.1,,,,,,,,,,\n");
  EXPECT_EQ(CsvLine({"a,\nb.jpg", {{7, 1}}}, {}), "\"a,\nb.jpg\",7,,1,,,,,,,,,,,,,\n");
  EXPECT_EQ(CsvLine({"a.jpg", {}, "cut, short"}, kNames), "a.jpg,,,,,,,,,,,,,,,,\"cut, short\"\n");
}

TEST(Predictions, NoFieldIsAFormula) {
  const std::vector<std::pair<std::string, std::string>> fields = {{"=1+1", "\"'=1+1\""},    {"+1", "\"'+1\""},
                                                                   {"-1", "\"'-1\""},        {"@A", "\"'@A\""},
                                                                   {"\t=1", "\"'\t=1\""},    {"\r", "\"'\r\""},
                                                                   {"\n", "\"'\n\""},        {"＝1", "\"'＝1\""},
                                                                   {"'=1", "\"''=1\""},      {"a;=1", "\"a;=1\""},
                                                                   {"=\"x", "\"'=\"\"x\""},  {"a=1", "a=1"},
                                                                   {"\xef\xbc", "\xef\xbc"}, {"", ""}};
  for (const auto& [text, field] : fields) EXPECT_EQ(CsvField(text), field) << text;
}

TEST(Predictions, JsonHasWhatIsKnown) {
  EXPECT_EQ(JsonLine({"a.jpg", {{0, 0.9f}, {2, 0.05f}}}, kNames),
            R"({"file":"a.jpg","top":[{"class":0,"name":"cat","probability":0.9},{"class":2,"probability":0.05}]})"
            "\n");
  EXPECT_EQ(JsonLine({"a\xff.jpg", {}, "no image"}, {}), "{\"file\":\"a\xef\xbf\xbd.jpg\",\"error\":\"no image\"}\n");
}

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
