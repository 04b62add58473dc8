#include "trainer/report/predictions.h"

#include <gtest/gtest.h>

#include <utility>

#include "trainer/report/csv.h"

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

}  // namespace
}  // namespace dtrain::report
