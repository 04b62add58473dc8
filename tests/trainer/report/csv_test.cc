#include "trainer/report/csv.h"

#include <gmock/gmock.h>

#include <tuple>
#include <utility>

#include "trainer/report/confusions.h"

namespace dtrain::report {
namespace {

using testing::ElementsAre;

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
