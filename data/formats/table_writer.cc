#include "data/formats/table_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "data/joined.h"
#include "data/shallow_json.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

using Json = nlohmann::ordered_json;
using AppendText = std::function<void(std::string_view text)>;

std::string CsvText(const Json& value) {
  if (value.is_null()) return "";
  return value.is_number_float() ? ShortestText(value) : value.is_string() ? CsvField(value) : value.dump();
}

void WriteCsv(const AppendText& append, bool byte_order_mark, const WrittenRow& columns, const RowWriter& write) {
  const auto append_line = [&append](const WrittenRow& row, const auto& text_of) {
    std::string line;
    for (const Cell& cell : row) line += text_of(cell) + ",";
    line.back() = '\n';
    append(line);
  };
  const auto append_header = [&](const WrittenRow& row) {
    append_line(row, [](const Cell& cell) { return CsvField(cell.column); });
  };
  bool has_header = false;
  if (byte_order_mark) append(kByteOrderMark);
  write([&](const WrittenRow& row) {
    if (!std::exchange(has_header, true)) append_header(row);
    append_line(row, [](const Cell& cell) { return CsvText(cell.value); });
  });
  if (!has_header && !columns.empty()) append_header(columns);
}

void WriteJsonLines(const AppendText& append, bool /*byte_order_mark*/, const WrittenRow& /*columns*/,
                    const RowWriter& write) {
  write([&](const WrittenRow& row) {
    Json line;
    for (const auto& [column, value, key, group, item] : row) {
      if (value.is_null() || !key) continue;
      Json& place = group.empty() ? line : item ? line[group][*item] : line[group];
      place[*key] = value;
    }
    append(JsonText(line) + "\n");
  });
}

constexpr TableWriter kWriters[] = {{".csv", /*is_nested=*/false, &WriteCsv},
                                    {".jsonl", /*is_nested=*/true, &WriteJsonLines}};

}  // namespace

std::string CsvField(const std::string& any) {
  int64_t ignored = 0;
  std::string text = ReplaceInvalidUtf8(any, ignored);  // a name of a file may be anything
  constexpr std::array<std::string_view, 12> kFormulas = {"=",  "+",  "-",  "@",  "\t", "\r",
                                                          "\n", "＝", "＋", "－", "＠", "'"};
  const bool is_formula =
      std::ranges::any_of(kFormulas, [&](std::string_view start) { return text.starts_with(start); });
  if (!is_formula && text.find_first_of(",;\t\"\r\n") == std::string::npos) return text;
  std::string quoted = is_formula ? "\"'" : "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string ShortestText(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(value)).ptr};
}

double JsonNumber(double value) { return std::stod(ShortestText(value)); }

const TableWriter* TableWriterOf(const std::string& path) {
  const auto* found = std::ranges::find_if(kWriters, [&path](const TableWriter& writer) {
    return path.ends_with(writer.ending) && !path.ends_with(std::string("/") + writer.ending) && path != writer.ending;
  });
  return found == std::end(kWriters) ? nullptr : found;
}

std::string TableFiles() {
  return Joined(kWriters, " or ", [](const TableWriter& writer) { return std::string("FILE") + writer.ending; });
}

}  // namespace dtrain::data
