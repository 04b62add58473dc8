#include "data/formats/table_writer.h"

#include <gtest/gtest.h>

#include <utility>

#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

TEST(CsvField, NoFieldIsAFormula) {
  const std::vector<std::pair<std::string, std::string>> fields = {{"=1+1", "\"'=1+1\""},
                                                                   {"+1", "\"'+1\""},
                                                                   {"-1", "\"'-1\""},
                                                                   {"@A", "\"'@A\""},
                                                                   {"\t=1", "\"'\t=1\""},
                                                                   {"\r", "\"'\r\""},
                                                                   {"\n", "\"'\n\""},
                                                                   {"＝1", "\"'＝1\""},
                                                                   {"'=1", "\"''=1\""},
                                                                   {"a;=1", "\"a;=1\""},
                                                                   {"=\"x", "\"'=\"\"x\""},
                                                                   {"a=1", "a=1"},
                                                                   {"a\xff.png", "a\uFFFD.png"},
                                                                   {"", ""}};
  for (const auto& [text, field] : fields) EXPECT_EQ(CsvField(text), field) << text;
}

TEST(TableWriter, SaysTheSameAsCsvAndAsJson) {
  const auto written = [](const char* name, const RowWriter& write) {
    std::string text;
    TableWriterOf(name)->write([&text](std::string_view part) { text += part; }, /*byte_order_mark=*/true, {{"a"}},
                               write);
    return text;
  };
  const auto two = [](const AppendRow& append) {
    append(
        {{"a", "x\xff, y"}, {"b, c", JsonNumber(0.1f), "c", "more"}, {"d", 7, "e", "list", 0}, {"f", 1, std::nullopt}});
    append({{"a", "=1"}, {"b, c", nullptr, "c", "more"}, {"d", "", "e", "list", 0}, {"f"}});
  };
  EXPECT_EQ(written("t.csv", two),
            std::string(kByteOrderMark) + "a,\"b, c\",d,f\n\"x\uFFFD, y\",0.1,7,1\n\"'=1\",,,\n");
  EXPECT_EQ(written("t.jsonl", two),
            "{\"a\":\"x\xef\xbf\xbd, "
            "y\",\"more\":{\"c\":0.1},\"list\":[{\"e\":7}]}\n{\"a\":\"=1\",\"list\":[{\"e\":\"\"}]}\n");
  EXPECT_EQ(written("t.csv", [](const AppendRow&) {}), std::string(kByteOrderMark) + "a\n");
  EXPECT_EQ(TableWriterOf("t.csv.txt"), nullptr);
}

}  // namespace
}  // namespace dtrain::data
