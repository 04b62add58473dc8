#include "data/formats/table_reader.h"

#include <gmock/gmock.h>

#include "tests/message_of.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;

using Cells = std::vector<std::string>;

// Returns all rows with all cells.
std::vector<Cells> RowsOf(std::string_view text, TableFormat format) {
  TableReader table("FILE", text, format);
  std::vector<size_t> all;
  for (size_t i = 0; i < table.header().size(); ++i) all.push_back(i);
  table.Select(all);
  std::vector<Cells> rows = {table.header()};
  TableRow row;
  while (table.Next(row)) rows.push_back(row.cells);
  return rows;
}

TEST(TableReader, TsvHasNoQuotes) {
  EXPECT_THAT(RowsOf("\xEF\xBB\xBFlabel\ttext\r\n1\t\"a \"\" b\r\n\t'c,\n\n", TableFormat::kTsv),
              ElementsAre(Cells{"label", "text"}, Cells{"1", "\"a \"\" b"}, Cells{"", "'c,"}));
}

TEST(TableReader, OfOneColumnBlankLinesAreRowsAtTheEndToo) {
  EXPECT_THAT(RowsOf("a\r\n\n\n", TableFormat::kLines), ElementsAre(Cells{"text"}, Cells{"a"}, Cells{""}, Cells{""}));
}

TEST(TableReader, JsonCellsAreFoundByName) {
  EXPECT_THAT(RowsOf("{\"text\": \"a\\tb\", \"label\": 1}\n{\"other\": [], \"text\": null}\r\n"
                     "{\"text\": true, \"label\": 0.5}\n",
                     TableFormat::kJsonLines),
              ElementsAre(Cells{"text", "label"}, Cells{"a\tb", "1"}, Cells{"", ""}, Cells{"true", "0.5"}));
  EXPECT_THAT(TableReader("FILE", R"({"b": {"x": [1]}, "a": 1, "b": 2})", TableFormat::kJsonLines).header(),
              ElementsAre("b", "a"));
}

TEST(TableReader, JsonIsReadAsPythonWritesIt) {
  EXPECT_THAT(RowsOf(R"({"a": NaN, "b": 18446744073709551616, "c": "\ud83d \"NaN\" \ud83d\ude00"})"
                     "\n{\"a\": -Infinity, \"b\": -9223372036854775809, \"c\": 1e400}\n",
                     TableFormat::kJsonLines),
              ElementsAre(Cells{"a", "b", "c"}, Cells{"", "18446744073709551616", "\uFFFD \"NaN\" \U0001F600"},
                          Cells{"", "-9223372036854775809", "1e400"}));
}

TEST(TableReader, RowsKnowTheirPlace) {
  TableReader table("FILE", "a,b\n\"x\ny\",1\nz,2\n", TableFormat::kCsv);
  table.Select({1});
  TableRow row;
  ASSERT_TRUE(table.Next(row));
  EXPECT_EQ(row.line, 2);
  EXPECT_EQ(row.offset, 4U);
  ASSERT_TRUE(table.Next(row));
  EXPECT_EQ(row.line, 4);
  EXPECT_THAT(row.cells, ElementsAre("2"));
  EXPECT_FALSE(table.Next(row));
}

TEST(TableReader, WhatIsWrongIsNamedWithItsLine) {
  const std::string long_cell(kMostCellBytes + 1, 'x');
  struct Case {
    TableFormat format;
    std::string text, message;
  };
  const Case cases[] = {
      {TableFormat::kTsv, "a\tb\n1\t2\n1\t2\t3\n", "FILE line 3: 3 cells, but the header has 2"},
      {TableFormat::kTsv, "a\tb\n1\n1\t2\n", "FILE line 2: 1 cell, but the header has 2"},
      {TableFormat::kTsv, "a\n" + long_cell, "FILE line 2: a cell is longer than 1 MiB"},
      {TableFormat::kTsv, "a\nx\ncaf\xE9\n", "FILE line 3: 'a' is not UTF-8"},
      {TableFormat::kTsv, "caf\xE9\nx\n", "FILE line 1: the names of the columns are not UTF-8"},
      {TableFormat::kTsv, std::string("a\n\0\n", 4), "FILE line 2: 'a' holds a NUL character"},
      {TableFormat::kCsv, "a,b\n1,\"x\ny", "FILE line 2: a cell begins with a double quote and never ends"},
      {TableFormat::kCsv, "a,b\n1,\"x\"y\n", "FILE line 2: a cell goes on after its closing double quote"},
      {TableFormat::kCsv, "a\n\"" + long_cell + "\"", "FILE line 2: a cell is longer than 1 MiB"},
      {TableFormat::kCsv, "a\n\"" + long_cell + long_cell + "\"", "longer than 1 MiB"},
      {TableFormat::kJsonLines, "{\"a\": 1}\n[1]\n", "FILE line 2: this is not a JSON object"},
      {TableFormat::kJsonLines, "{\"a\": 1}\n\n{\"a\": 2}\n", "FILE line 2: this is not a JSON object"},
      {TableFormat::kJsonLines, "{\"a\": \"x\"}\n{\"a\": [1]}\n", "FILE line 2: 'a' is not a text or a number"},
      {TableFormat::kJsonLines, "{\"a\": \"x\\u0000\"}\n", "FILE line 1: 'a' holds a NUL character"},
      {TableFormat::kJsonLines, "{\"a\": " + std::string(100'000, '['), "FILE line 1: this is not a JSON object"},
      {TableFormat::kLines, "fine\n\xFF\n", "FILE line 2: 'text' is not UTF-8"},
      {TableFormat::kCsv, "\n\r\n", "FILE is empty"},
      {TableFormat::kCsv, "file,label\ra.png,1\r", "end with a carriage return alone"}};
  for (const Case& one : cases) {
    EXPECT_ERROR(one.message, RowsOf(one.text, one.format));
  }
}

TEST(TableReader, EmptyRowsAreLeftOut) {
  TableReader table("FILE", "a;b\n1;2\n;\n\r\n3;\n;\n", TableFormat::kCsv);
  table.Select({0});
  TableRow row;
  ASSERT_TRUE(table.Next(row));
  ASSERT_TRUE(table.Next(row));
  EXPECT_THAT(row.cells, ElementsAre("3"));
  EXPECT_FALSE(table.Next(row));
  EXPECT_EQ(table.left_out(), 3);
}

TEST(TableReader, OnlySelectedCellsAreRead) {
  TableReader table("FILE", "a\tb\n\xFF\tfine\n", TableFormat::kTsv);
  table.Select({1});
  TableRow row;
  ASSERT_TRUE(table.Next(row));
  EXPECT_THAT(row.cells, ElementsAre("fine"));
}

}  // namespace
}  // namespace dtrain::data
