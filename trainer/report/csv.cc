#include "trainer/report/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "trainer/checkpoint/durable_file.h"

namespace dtrain::report {
namespace {

// Returns the cells of a line, each with a comma behind it.
std::string Cells(const nlohmann::ordered_json& value) {
  if (!value.is_structured()) {
    return (value.is_number_float() ? ShortestText(value) : value.is_string() ? CsvField(value) : value.dump()) + ",";
  }
  std::string cells;
  for (const auto& cell : value) cells += Cells(cell);
  return cells;
}

std::string CsvText(const nlohmann::ordered_json& line) {
  std::string cells = Cells(line);
  cells.back() = '\n';
  return cells;
}

std::string JsonText(const nlohmann::ordered_json& line) {
  return line.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string CsvField(const std::string& text) {
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

void WriteTable(const std::string& path, const std::vector<std::string>& columns, bool byte_order_mark,
                const std::function<void(const AppendRow& append)>& write) {
  const bool is_csv = IsCsv(path);
  checkpoint::WriteAtomically(path, [&](checkpoint::DurableFile& file) {
    if (is_csv && byte_order_mark) file.Append(kByteOrderMark);
    if (is_csv) file.Append(CsvText(columns));
    write([&](const nlohmann::ordered_json& row) { file.Append(is_csv ? CsvText(row) : JsonText(row)); });
  });
}

}  // namespace dtrain::report
