#include "data/sentences/table_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/count_of.h"
#include "data/error.h"
#include "data/shallow_json.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kMostLineBytes = 16 * kMostCellBytes;  // of JSON

std::string_view Trimmed(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const size_t last = text.find_last_not_of("\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

std::string_view WithoutReturn(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

nlohmann::json ParseObject(std::string_view line) {
  try {
    auto value = ParseShallow(std::string(line));
    if (value.is_object()) return value;
  } catch (const nlohmann::json::exception&) {  // the caller says where
  }
  return {};
}

}  // namespace

std::optional<TableFormat> TableFormatOf(const std::string& path) {
  if (path.ends_with(".tsv")) return TableFormat::kTsv;
  if (path.ends_with(".csv")) return TableFormat::kCsv;
  if (path.ends_with(".jsonl")) return TableFormat::kJsonLines;
  if (path.ends_with(".txt")) return TableFormat::kLines;
  return std::nullopt;
}

TableReader::TableReader(std::string name, std::string_view text, TableFormat format)
    : name_(std::move(name)), text_(Trimmed(text)), format_(format), rest_(text_) {
  if (text_.empty()) throw DataError(name_ + " is empty");
  if (format_ == TableFormat::kLines) {
    header_ = {"text"};
    return;
  }
  if (format_ == TableFormat::kJsonLines) {
    const auto first = ParseObject(TakeLine());
    if (!first.is_object()) Fail(1, "this is not a JSON object", "a .jsonl file holds one object in each line");
    for (const auto& [key, value] : first.items()) header_.push_back(key);
    Begin();  // the first line is data, too
    return;
  }
  for (const std::string_view cell : TakeCells()) {
    if (!IsUtf8(cell)) Fail(1, "the names of the columns are not UTF-8", "convert the file to UTF-8");
    header_.emplace_back(cell);
  }
}

void TableReader::Begin() {
  rest_ = text_;
  next_line_ = line_ = 1;
}

void TableReader::FirstLineIsData(std::vector<std::string> names) {
  header_ = std::move(names);
  Begin();
}

void TableReader::Fail(int64_t line, const std::string& what, const std::string& hint) const {
  throw DataError(name_ + " line " + std::to_string(line) + ": " + what, hint);
}

bool TableReader::Next(TableRow& row) {
  while (!rest_.empty()) {
    row.line = line_ = next_line_;
    row.offset = static_cast<uint64_t>(rest_.data() - text_.data());
    if (format_ == TableFormat::kJsonLines) {
      FillFromObject(TakeLine(), row);
      return true;
    }
    const std::vector<std::string_view> cells = TakeCells();
    if (cells.size() == header_.size()) {
      row.cells.clear();
      for (const size_t column : selected_) {
        CheckCell(cells[column], column);
        row.cells.emplace_back(cells[column]);
      }
      return true;
    }
    if (!leaves_out_ragged_) {
      Fail(line_,
           CountOf(static_cast<int64_t>(cells.size()), "cell") + ", but the header has " +
               std::to_string(header_.size()),
           format_ == TableFormat::kTsv
               ? "tabs and line ends cannot be part of a cell of a .tsv file: use .csv or .jsonl"
               : "cells with commas or line ends must be in double quotes");
    }
    ++left_out_;
  }
  return false;
}

std::vector<std::string_view> TableReader::TakeCells() {
  if (format_ == TableFormat::kCsv) return TakeCsvCells();
  if (format_ == TableFormat::kTsv) return TakeTsvCells();
  const std::string_view line = TakeLine();
  Require(line.size() <= kMostCellBytes);
  return {line};
}

std::string_view TableReader::TakeLine() {
  const size_t end = std::min(rest_.find('\n'), rest_.size());
  const std::string_view line = rest_.substr(0, end);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  ++next_line_;
  return WithoutReturn(line);
}

std::vector<std::string_view> TableReader::TakeTsvCells() {
  std::vector<std::string_view> cells;
  std::string_view line = TakeLine();
  while (true) {
    const size_t tab = std::min(line.find('\t'), line.size());
    Require(tab <= kMostCellBytes);
    cells.push_back(line.substr(0, tab));
    if (tab == line.size()) return cells;
    line.remove_prefix(tab + 1);
  }
}

std::vector<std::string_view> TableReader::TakeCsvCells() {
  unquoted_.clear();
  std::vector<std::string_view> cells = {TakeCsvCell()};
  while (rest_.starts_with(',')) {
    rest_.remove_prefix(1);
    cells.push_back(TakeCsvCell());
  }
  if (rest_.starts_with('\n')) rest_.remove_prefix(1);
  ++next_line_;
  return cells;
}

// Takes a cell, up to the comma or the line end behind it.
std::string_view TableReader::TakeCsvCell() {
  if (!rest_.starts_with('"')) {
    const size_t end = std::min(rest_.find_first_of(",\n"), rest_.size());
    Require(end <= kMostCellBytes);
    const bool ends_row = end == rest_.size() || rest_[end] == '\n';
    const std::string_view cell = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return ends_row ? WithoutReturn(cell) : cell;
  }
  const std::string_view quoted = TakeQuoted();
  if (quoted.find('"') == std::string_view::npos) return quoted;
  std::string& cell = unquoted_.emplace_back();
  for (size_t i = 0; i < quoted.size(); i += quoted[i] == '"' ? 2 : 1) cell += quoted[i];
  return cell;
}

// Takes a cell with its quotes, and a \r before the row's end. Returns what is between the quotes.
std::string_view TableReader::TakeQuoted() {
  size_t end = 1;
  while (true) {
    end = rest_.find('"', end);
    if (end == std::string_view::npos || end > 2 * kMostCellBytes) {
      Fail(line_,
           "a cell begins with a double quote and " +
               std::string(end == std::string_view::npos ? "never ends" : "is longer than 1 MiB"),
           "a cell ends with a double quote, and double quotes within it are written twice");
    }
    if (end + 1 == rest_.size() || rest_[end + 1] != '"') break;
    end += 2;
  }
  const std::string_view quoted = rest_.substr(1, end - 1);
  next_line_ += std::count(quoted.begin(), quoted.end(), '\n');
  rest_.remove_prefix(end + 1);
  if (rest_.starts_with("\r\n")) rest_.remove_prefix(1);
  if (!rest_.empty() && rest_.front() != ',' && rest_.front() != '\n') {
    Fail(line_, "a cell goes on after its closing double quote", "double quotes within a cell are written twice");
  }
  return quoted;
}

void TableReader::FillFromObject(std::string_view line, TableRow& row) const {
  if (line.size() > kMostLineBytes) Fail(line_, "the line is longer than 16 MiB");
  if (!IsUtf8(line)) Fail(line_, "the line is not UTF-8", "convert the file to UTF-8");
  const nlohmann::json object = ParseObject(line);
  if (!object.is_object()) Fail(line_, "this is not a JSON object", "a .jsonl file holds one object in each line");
  row.cells.clear();
  for (const size_t column : selected_) {
    std::string& cell = row.cells.emplace_back();
    const auto found = object.find(header_[column]);
    if (found == object.end() || found->is_null()) continue;
    if (found->is_structured()) Fail(line_, "'" + header_[column] + "' is not a text or a number");
    cell = found->is_string() ? found->get<std::string>() : found->dump();
    CheckCell(cell, column);
  }
}

void TableReader::CheckCell(std::string_view cell, size_t column) const {
  Require(cell.size() <= kMostCellBytes);
  if (!IsUtf8(cell)) Fail(line_, "'" + header_[column] + "' is not UTF-8", "convert the file to UTF-8");
  if (cell.find('\0') != std::string_view::npos) {
    Fail(line_, "'" + header_[column] + "' holds a NUL character",
         "remove it: texts have none, so the file is probably damaged or in UTF-16");
  }
}

void TableReader::Require(bool is_short_enough) const {
  if (!is_short_enough) Fail(line_, "a cell is longer than 1 MiB", "cut such texts: no model reads that many tokens");
}

}  // namespace dtrain::data
