#include "trainer/tasks/predictions.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/formats/raw_rows.h"
#include "tests/temporary_folder.h"

namespace dtrain::tasks {
namespace {

using data::LabelKind;

class PredictionsTest : public testing::Test {
 protected:
  std::string Written() const { return ReadAll(config_.run.output); }

  // Returns the table of two samples, of which the second could not be read.
  std::string Predicted(const char* file, const std::vector<std::string>& inputs, const Outcome& outcome,
                        const std::vector<std::string>& names, const at::Tensor& outputs_C) {
    config_.run.output = (folder_.path() / file).string();
    PredictionTable(config_, inputs, outcome, names).Write([&](const AppendSample& append) {
      append({.inputs = {"a"}, .values_C = outputs_C});
      append({.inputs = {"b"}, .error = "cut, short"});
    });
    return Written();
  }

  // Returns what an evaluation writes of the last of two samples.
  std::string Evaluated(const char* file, const Outcome& outcome, const std::vector<std::string>& names,
                        const at::Tensor& outputs_C, const at::Tensor& target,
                        std::vector<data::SentenceText> texts = {},
                        std::shared_ptr<const data::SplitWords> words = nullptr) {
    config_.run.output = (folder_.path() / file).string();
    DataSplit split{.name = "val", .source = std::make_unique<data::Synthetic>(2, 2, 8, 8), .decoder = nullptr};
    split.texts = std::move(texts);
    split.words = std::move(words);
    SampleResults results(/*rows=*/2, outcome, at::kCPU);
    results.Add({at::tensor({1}, at::kLong), outputs_C.unsqueeze(0), target});
    results.Write(config_.run.output, split, names, /*byte_order_mark=*/false);
    EXPECT_TRUE(data::HasMark(config_.run.output, kSampleMarks)) << "the same command may replace it";
    return Written();
  }

  const TemporaryFolder folder_;
  config::Config config_;
  // Probabilities of 0.25, 0.5 and 0.25.
  const at::Tensor logits_ = at::tensor({0.0, std::log(2.0), 0.0}, at::kFloat);
};

TEST_F(PredictionsTest, ClassesOfImagesAreListedFromTheLikeliestOn) {
  const Outcome outcome{.outputs = 3};
  const std::string end = ",class_4,name_4,probability_4,class_5,name_5,probability_5,error\n";
  EXPECT_EQ(Predicted("p.csv", {"file"}, outcome, {"cat", "dog"}, logits_),
            "file,class_1,name_1,probability_1,class_2,name_2,probability_2,class_3,name_3,probability_3" + end +
                "a,1,dog,0.5,0,cat,0.25,2,,0.25,,,,,,,\nb,,,,,,,,,,,,,,,,\"cut, short\"\n");
  EXPECT_EQ(Predicted("p.jsonl", {"file"}, outcome, {"cat", "dog"}, logits_),
            R"({"file":"a","top":[{"class":1,"name":"dog","probability":0.5},)"
            R"({"class":0,"name":"cat","probability":0.25},{"class":2,"probability":0.25}]})"
            "\n"
            R"({"file":"b","error":"cut, short"})"
            "\n");
}

TEST_F(PredictionsTest, OtherTablesHaveAColumnForEachOutput) {
  EXPECT_EQ(Predicted("p.csv", {"text"}, {.outputs = 3}, {"x", "y", "z"}, logits_),
            "text,prediction,probability_x,probability_y,probability_z,error\na,y,0.25,0.5,0.25,\n"
            "b,,,,,\"cut, short\"\n");
  EXPECT_EQ(Predicted("p.csv", {"file"}, {.labels = LabelKind::kSeveral, .outputs = 3}, {"x", "y", "z"}, logits_),
            "file,prediction,probability_x,probability_y,probability_z,error\na,\"x,y,z\",0.5,0.6666667,0.5,\n"
            "b,,,,,\"cut, short\"\n");
  EXPECT_EQ(Predicted("p.jsonl", {"text"}, {.labels = LabelKind::kNumbers}, {}, at::tensor({0.1}, at::kFloat)),
            "{\"text\":\"a\",\"prediction\":0.1}\n{\"text\":\"b\",\"error\":\"cut, short\"}\n");
}

TEST_F(PredictionsTest, AnEvaluationHasTheSamplesThatWereEvaluated) {
  const std::string place = data::Synthetic(2, 2, 8, 8).Location(1);
  const at::Tensor label = at::tensor(0, at::kLong), two = logits_.slice(0, 0, 2);
  const std::string loss = "1.0986123";  // ln 3
  EXPECT_EQ(Evaluated("e.csv", {.outputs = 2}, {"cat", "=dog"}, two, label),
            "file,label,prediction,loss,class_1,probability_1,class_2,probability_2\n" + place + ",cat,\"'=dog\"," +
                loss + ",\"'=dog\",0.6666667,cat,0.33333334\n");
  EXPECT_EQ(Evaluated("e.csv", {.outputs = 2}, {}, two, label),
            "file,label,prediction,loss,class_1,probability_1,class_2,probability_2\n" + place + ",0,1," + loss +
                ",1,0.6666667,0,0.33333334\n");
  EXPECT_EQ(Evaluated("e.jsonl", {.outputs = 2}, {"cat", "dog"}, two, label),
            "{\"file\":\"" + place + "\",\"label\":\"cat\",\"prediction\":\"dog\",\"loss\":" + loss +
                ",\"probabilities\":{\"dog\":0.6666667,\"cat\":0.33333334}}\n");
}

TEST_F(PredictionsTest, ARegressionHasNumbersAndItsTexts) {
  const Outcome outcome{.labels = LabelKind::kNumbers};
  const std::string place = data::Synthetic(2, 2, 8, 8).Location(1);
  EXPECT_EQ(Evaluated("e.csv", outcome, {}, at::tensor({4.0}, at::kFloat), at::tensor(3.5, at::kFloat),
                      {{"", ""}, {"one, two", "b"}}),
            "file,text,pair,label,prediction,loss\n" + place + ",\"one, two\",b,3.5,4,0.25\n");
}

TEST_F(PredictionsTest, AWordHasItsSentenceAndLine) {
  const auto words = std::make_shared<data::SplitWords>(data::SplitWords{
      .ends = {1, 2}, .places = {{.line = 1}, {.line = 3}}, .texts = {"in", "Rome"}, .lines = {}, .unread = {}});
  const std::string file = data::Synthetic(2, 2, 8, 8).Place(0).file;
  EXPECT_EQ(
      Evaluated("e.csv", {.outputs = 2}, {"O", "LOC"}, logits_.slice(0, 0, 2), at::tensor(1, at::kLong), {}, words),
      "file,sentence,word,label,prediction,loss,class_1,probability_1,class_2,probability_2\n" + file +
          " line 3,2,Rome,LOC,LOC,0.4054651,LOC,0.6666667,O,0.33333334\n");
  EXPECT_THAT(
      Evaluated("e.jsonl", {.outputs = 2}, {"O", "LOC"}, logits_.slice(0, 0, 2), at::tensor(1, at::kLong), {}, words),
      testing::HasSubstr("\"sentence\":2,"));
}

}  // namespace
}  // namespace dtrain::tasks
