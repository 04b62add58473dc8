// Tables that other programs read, as CSV (RFC 4180) or JSON lines, and fields of CSV files that spreadsheets show as
// they are.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dtrain::report {

// What a CSV file begins with if Excel is to know that it is UTF-8.
inline constexpr char kByteOrderMark[] = "\xEF\xBB\xBF";

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

inline bool IsCsv(const std::string& path) { return path.ends_with(".csv"); }

// Writes FILE.csv, which begins with `columns`, or the JSON lines of FILE.jsonl, atomically. `write` is called once,
// and appends the rows: objects, of which CSV has the texts and numbers, however deep in them, as cells, and JSON all;
// there, bytes that are no UTF-8 are replaced. With `byte_order_mark` FILE.csv begins with one. Throws StorageError.
using AppendRow = std::function<void(const nlohmann::ordered_json& row)>;
void WriteTable(const std::string& path, const std::vector<std::string>& columns, bool byte_order_mark,
                const std::function<void(const AppendRow& append)>& write);

}  // namespace dtrain::report
