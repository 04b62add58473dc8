// Tables of sentences. The first byte chooses the format. What is read must be text, and a CSV file that is written
// from it must be read as the same.
#include <algorithm>
#include <string>
#include <vector>

#include "data/error.h"
#include "data/formats/table_reader.h"
#include "data/sentences/table_columns.h"
#include "data/text/utf8.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace dtrain;

using Rows = std::vector<std::vector<std::string>>;

Rows Read(std::string_view text, data::TableFormat format) {
  data::TableReader table("FILE", text, format);
  std::vector<size_t> columns;
  for (size_t i = 0; i < table.header().size(); ++i) columns.push_back(i);
  table.Select(columns);
  Rows rows;
  data::TableRow row;
  uint64_t least_offset = 0;
  while (table.Next(row)) {
    fuzz::Require(row.offset >= least_offset && row.offset < text.size(), "rows are not in order");
    fuzz::Require(row.cells.size() == columns.size(), "another number of cells");
    for (const std::string& cell : row.cells) {
      fuzz::Require(cell.size() <= data::kMostCellBytes && data::IsUtf8(cell), "a cell that is no text");
      fuzz::Require(cell.find('\0') == std::string::npos, "a cell with a NUL");
    }
    least_offset = row.offset + 1;
    rows.push_back(row.cells);
  }
  return rows;
}

std::string AsCsv(const Rows& rows) {
  std::string text = "header";
  for (size_t i = 1; !rows.empty() && i < rows[0].size(); ++i) text += ",header";
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += i == 0 ? "\n\"" : ",\"";
      for (const char c : row[i]) text += c == '"' ? "\"\"" : std::string(1, c);
      text += '"';
    }
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  fuzz::FuzzInput input(bytes, size);
  constexpr data::TableFormat kFormats[] = {data::TableFormat::kTsv, data::TableFormat::kCsv,
                                            data::TableFormat::kJsonLines, data::TableFormat::kLines};
  const data::TableFormat format = kFormats[input.TakeByte() % 4];
  try {
    data::TableReader table("FILE", input.text(), format);
    ChooseColumns(table, {}, true);
  } catch (const DataError&) {
  }
  Rows rows;
  try {
    rows = Read(input.text(), format);
  } catch (const DataError&) {
    return 0;
  }
  // A JSON object without keys has no cell, which CSV cannot say.
  if (rows.empty() || rows[0].empty()) return 0;
  std::erase_if(rows,
                [](const auto& row) { return std::ranges::all_of(row, &std::string::empty); });  // CSV's are left out
  fuzz::Require(Read(AsCsv(rows), data::TableFormat::kCsv) == rows, "what is written is not what is read");
  return 0;
}
