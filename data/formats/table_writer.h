// Tables that other programs read, as CSV (RFC 4180) or JSON lines, and fields of CSV files that spreadsheets show as
// they are.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::data {

// Returns `text` as a field, in quotes if it contains a separator, a quote or the end of a line. The names of classes
// and files come from outside, and a spreadsheet would compute "=1+1". So a text that begins with = + - @ (also in full
// width), a tab, or the end of a line gets a ' in front, as OWASP advises against CSV injection
// (https://owasp.org/www-community/attacks/CSV_Injection), and so does one that begins with ': readers get the text
// back by removing one leading '.
std::string CsvField(const std::string& text);

// Returns the shortest text that reads back as the float which a model has computed.
std::string ShortestText(double value);
// The same as a number of JSON. What is not a number becomes null there.
double JsonNumber(double value);

// A cell of a row: a text, a number, or null, which CSV shows as an empty cell and JSON leaves out, as all without a
// key. JSON nests the cells of a group: {"GROUP": {"KEY": value}}, or {"GROUP": [{"KEY": value}, …]} by their items.
struct Cell {
  std::string column;
  nlohmann::ordered_json value = nullptr;
  std::optional<std::string> key = column;
  std::string group = {};
  std::optional<size_t> item = {};
};
using WrittenRow = std::vector<Cell>;  // rows of a table have the same columns
using AppendRow = std::function<void(const WrittenRow& row)>;
using RowWriter = std::function<void(const AppendRow& append)>;  // is called once, and appends all in order

// A format of tables: a row of the list in table_writer.cc.
struct TableWriter {
  const char* ending;  // of the file's name
  bool is_nested;      // rows may lack columns, and have cells that are JSON
  // Gives `append` the file's text in parts. `columns` are those of a table without rows. In JSON, bytes that are no
  // UTF-8 are replaced.
  void (*write)(const std::function<void(std::string_view text)>& append, bool byte_order_mark,
                const WrittenRow& columns, const RowWriter& write);
};

// Returns null if `path` does not end as a table's name does, or is nothing but the ending.
const TableWriter* TableWriterOf(const std::string& path);

// Returns "FILE.csv or FILE.jsonl".
std::string TableFiles();

}  // namespace dtrain::data
