#include "data/formats/table_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "data/error.h"
#include "data/formats/labels.h"
#include "data/joined.h"
#include "data/shallow_json.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/text/utf8.h"
#include "data/whole_number.h"

namespace dtrain::data {
namespace {

constexpr size_t kMostLineBytes = 16 * kMostCellBytes;  // of JSON

// What to do about a text that is not UTF-8; `text` begins the file.
std::string HowToConvert(const std::string& name, std::string_view text) {
  const bool is_utf16 = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
  std::string quoted = "'";  // for a shell
  for (const char c : name) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  quoted += "'";
  return std::string("convert the file to UTF-8") +
         (is_utf16 ? "" : " (if a spreadsheet of Western Europe or America wrote it)") + ": iconv -f " +
         (is_utf16 ? "UTF-16" : "WINDOWS-1252") + " -t UTF-8 " + quoted + " > new.utf8 && mv new.utf8 " + quoted;
}

// Returns what separates the cells of CSV: what its header has most of, outside of quotes.
char DelimiterOf(std::string_view text) {
  constexpr std::string_view kDelimiters = ",;\t";
  std::array<int64_t, kDelimiters.size()> counts{};
  bool quoted = false;
  for (const char c : text.substr(0, std::min(text.size(), kMostCellBytes))) {
    if (c == '"') quoted = !quoted;
    if (c == '\n' && !quoted) break;
    const size_t place = kDelimiters.find(c);
    if (place != std::string_view::npos && !quoted) ++counts[place];
  }
  return kDelimiters[static_cast<size_t>(std::ranges::max_element(counts) - counts.begin())];
}

std::string_view WithoutReturn(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

TableFormat RequireTableFormat(const std::string& path) {
  if (const auto format = TableFormatOf(path)) return *format;
  throw DataError(path + " is not a table", "its name must end in .tsv, .csv or .jsonl (or of texts in .txt)");
}

// Returns the keys of an object in their order, which the parsed object does not keep.
std::vector<std::string> KeysOf(std::string_view object) {
  std::vector<std::string> keys;
  std::set<std::string> known;
  const auto take = [&](int depth, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    const bool is_key = depth == 1 && event == nlohmann::json::parse_event_t::key;
    if (is_key && known.insert(parsed.get<std::string>()).second) keys.push_back(parsed.get<std::string>());
    return event != nlohmann::json::parse_event_t::key;  // no value is built: long lists would take long
  };
  std::ignore = nlohmann::json::parse(object, take);  // `take` has all
  return keys;
}

}  // namespace

std::optional<TableFormat> TableFormatOf(const std::string& file) {
  const std::string path = LowerCase(file);
  if (path.ends_with(".tsv")) return TableFormat::kTsv;
  if (path.ends_with(".csv")) return TableFormat::kCsv;
  if (path.ends_with(".jsonl") || path.ends_with(".json")) return TableFormat::kJsonLines;
  if (path.ends_with(".txt")) return TableFormat::kLines;
  return std::nullopt;
}

TableReader::TableReader(std::string name, std::string_view text, TableFormat format, char delimiter)
    : name_(std::move(name)),
      text_(WithoutByteOrderMark(text)),
      format_(format),
      delimiter_(delimiter != 0 ? delimiter : DelimiterOf(text_)),
      rest_(text_) {
  if (text_.find_first_not_of("\r\n") == std::string_view::npos) throw DataError(name_ + " is empty");
  if (text_.find('\n') == std::string_view::npos && text_.find('\r') < text_.size() - 1) {
    throw DataError(name_ + ": its lines end with a carriage return alone", "convert it: tr '\\r' '\\n' < FILE");
  }
  if (format_ == TableFormat::kLines) {
    header_ = {"text"};
    return;
  }
  if (format_ == TableFormat::kJsonLines) {
    LeaveOutBlankEnd();
    const std::string first = InPlainJson(TakeLine());
    if (!ParseObject(first).is_object())
      Fail(1, "this is not a JSON object", "a .jsonl file holds one object in each line");
    header_ = KeysOf(first);
    Begin();  // the first line is data, too
    return;
  }
  for (const std::string_view cell : TakeCells()) {
    if (!IsUtf8(cell)) Fail(1, "the names of the columns are not UTF-8", HowToConvert(name_, text_));
    header_.emplace_back(cell);
  }
  if (header_.size() > 1) LeaveOutBlankEnd();
}

void TableReader::LeaveOutBlankEnd() {
  const auto taken = static_cast<size_t>(rest_.data() - text_.data());
  text_ = text_.substr(0, text_.find_last_not_of("\r\n") + 1);
  rest_ = text_.substr(std::min(taken, text_.size()));
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
  row.error.clear();
  row.cells.clear();
  if (!keeps_going_) return Read(row);
  const std::string_view before = rest_;
  try {
    return Read(row);
  } catch (const DataError& error) {
    row.error = error.what() + (error.hint().empty() ? "" : "; " + error.hint());
    if (row.cells.size() != selected_.size()) row.cells.assign(selected_.size(), "");
    std::fill_n(row.cells.begin(), std::min(unread_, row.cells.size()), "");
    if (!has_taken_row_) {
      rest_ = before;
      next_line_ = line_;
      TakeLine();
    }
    return true;
  }
}

bool TableReader::Read(TableRow& row) {
  while (!rest_.empty()) {
    row.line = line_ = next_line_;
    row.offset = static_cast<uint64_t>(rest_.data() - text_.data());
    has_taken_row_ = false;
    if (format_ == TableFormat::kJsonLines) {
      FillFromObject(TakeLine(), row);
      return true;
    }
    const std::vector<std::string_view> cells = TakeCells();
    has_taken_row_ = true;
    const bool is_empty = format_ != TableFormat::kLines && std::ranges::all_of(cells, &std::string_view::empty);
    if (cells.size() == header_.size() && (keeps_going_ || !is_empty)) {
      row.cells.clear();
      for (const size_t column : selected_) row.cells.emplace_back(cells[column]);
      for (size_t place = 0; place < selected_.size(); ++place) CheckCell(row.cells[place], place);
      return true;
    }
    if (keeps_going_ || !(leaves_out_ragged_ || is_empty)) {
      Fail(line_, CountOf(cells.size(), "cell") + ", but the header has " + std::to_string(header_.size()),
           format_ == TableFormat::kTsv
               ? "tabs and line ends cannot be part of a cell of a .tsv file: use .csv or .jsonl"
               : std::string("cells with ") +
                     (delimiter_ == ','   ? "commas"
                      : delimiter_ == ';' ? "semicolons"
                                          : "tabs") +
                     " or line ends must be in double quotes; --csv_delimiter says what separates cells");
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
  while (rest_.starts_with(delimiter_)) {
    rest_.remove_prefix(1);
    cells.push_back(TakeCsvCell());
  }
  if (rest_.starts_with('\n')) rest_.remove_prefix(1);
  ++next_line_;
  return cells;
}

// Takes a cell, up to the delimiter or the line end behind it.
std::string_view TableReader::TakeCsvCell() {
  if (!rest_.starts_with('"')) {
    const char ends[] = {delimiter_, '\n'};
    const size_t end = std::min(rest_.find_first_of(std::string_view(ends, sizeof ends)), rest_.size());
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
  if (!rest_.empty() && rest_.front() != delimiter_ && rest_.front() != '\n') {
    Fail(line_, "a cell goes on after its closing double quote", "double quotes within a cell are written twice");
  }
  return quoted;
}

void TableReader::FillFromObject(std::string_view line, TableRow& row) const {
  if (line.size() > kMostLineBytes) Fail(line_, "the line is longer than 16 MiB");
  if (!IsUtf8(line)) Fail(line_, "the line is not UTF-8", HowToConvert(name_, text_));
  const nlohmann::json object = ParseObject(InPlainJson(line));
  if (!object.is_object()) Fail(line_, "this is not a JSON object", "a .jsonl file holds one object in each line");
  row.cells.clear();
  for (size_t place = 0; place < selected_.size(); ++place) {
    const std::string& name = header_[selected_[place]];
    std::string& cell = row.cells.emplace_back();
    const auto found = object.find(name);
    if (found == object.end() || found->is_null()) continue;
    if (place == lists_ && (separator_ == kLabelSeparator || found->is_array())) {
      cell = JoinedList(name, *found);
      continue;
    }
    if (found->is_structured() && place < unread_) {
      Fail(line_, "'" + name + "' is not a text or a number",
           found->is_array()
               ? "lists of labels are for --task=text_multilabel or image_multilabel, lists of words and of "
                 "their tags for --task=token_classification"
               : "");
    }
    cell = found->is_string() ? found->get<std::string>() : found->dump();
    CheckCell(cell, place);
  }
}

std::string TableReader::JoinedList(const std::string& name, const nlohmann::json& list) const {
  if (!list.is_array()) {
    Fail(line_, "'" + name + "' is not a list of labels, as in [\"a\", \"b\"]",
         "if a text holds several labels, say what is between them with --label_separator");
  }
  std::string joined;
  for (const nlohmann::json& one : list) {
    const std::string text = one.is_string() ? one.get<std::string>() : "";
    if (text.empty() || text.find(separator_) != text.npos)
      Fail(line_,
           "'" + name + "' holds " + (one.is_string() ? "an empty label, or one with a separator" : "what is no text"),
           "write a list of texts, as in [\"a\", \"b\"]");
    joined += text + separator_;
  }
  CheckCell(joined, lists_);
  return joined;
}

void TableReader::CheckCell(std::string_view cell, size_t place) const {
  Require(cell.size() <= kMostCellBytes);
  if (place >= unread_) return;
  const std::string& name = header_[selected_[place]];
  if (!IsUtf8(cell)) Fail(line_, "'" + name + "' is not UTF-8", HowToConvert(name_, text_));
  if (cell.find('\0') != std::string_view::npos) {
    Fail(line_, "'" + name + "' holds a NUL character",
         "remove it: texts have none, so the file is probably damaged or in UTF-16");
  }
}

void TableReader::Require(bool is_short_enough) const {
  if (!is_short_enough) Fail(line_, "a cell is longer than 1 MiB", "cut such texts: no model reads that many tokens");
}

TableFile::TableFile(const std::string& path, char delimiter)
    : text_(ReadIntoMemory(path)), reader_(path, text_, RequireTableFormat(path), delimiter) {}

// ---- Columns ----

std::string NamesForPeople(const std::vector<std::string>& names) {
  constexpr size_t kMost = 20, kMostBytes = 60;
  return FirstOf(names, kMost, [](const std::string& name) { return "'" + Shown(name, kMostBytes) + "'"; });
}

ColumnFinder::ColumnFinder(const TableReader& table) : table_(table) {
  for (const std::string& name : table.header()) lower_.push_back(LowerCase(name));
}

std::optional<size_t> ColumnFinder::Find(std::string_view known) const {
  const auto found = std::ranges::find(lower_, known);
  if (found == lower_.end()) return std::nullopt;
  return static_cast<size_t>(found - lower_.begin());
}

size_t ColumnFinder::Named(const std::string& name, const std::string& flag) const {
  const auto& header = table_.header();
  const auto found = std::ranges::find(header, name);
  if (found == header.end()) {
    const auto number = WholeNumber<size_t>(name);
    if (number && *number < header.size()) return *number;
    throw DataError(
        table_.name() + " has no column '" + name + "'; it has " + NamesForPeople(header),
        name.find(',') == std::string::npos
            ? "name one of these with " + flag
            : "several columns of labels are for --task=text_multilabel, image_multilabel or image_regression");
  }
  if (std::find(found + 1, header.end(), name) != header.end()) {
    throw DataError(table_.name() + " has two columns '" + name + "'", "give each column a name of its own");
  }
  return static_cast<size_t>(found - header.begin());
}

std::vector<size_t> ColumnFinder::AllNamed(const std::string& names, const std::string& flag) const {
  std::vector<size_t> columns;
  std::istringstream each(names);
  for (std::string name; std::getline(each, name, ',');) columns.push_back(Named(name, flag));
  return columns;
}

std::vector<size_t> ColumnFinder::AllOf(std::span<const std::string_view> known) const {
  std::vector<size_t> found;
  for (size_t i = 0; i < lower_.size(); ++i) {
    const std::string_view name = lower_[i], stem = name.substr(0, name.find_last_not_of("0123456789_") + 1);
    if (std::ranges::find(known, name) != known.end() || stem == known.front()) found.push_back(i);
  }
  return found;
}

size_t ColumnFinder::Only(std::span<const std::string_view> known, const std::vector<size_t>& taken,
                          const std::string& what, const std::string& flag) const {
  std::vector<size_t> found;
  for (size_t i = 0; i < lower_.size(); ++i) {
    if (std::ranges::find(taken, i) != taken.end()) continue;
    if (std::ranges::find(known, lower_[i]) != known.end()) found.push_back(i);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    throw DataError(
        table_.name() + " has no column that is known to hold " + what + "; it has " + NamesForPeople(table_.header()),
        "name the column with " + flag + " (the first line must hold the names of the columns)");
  }
  std::vector<std::string> names;
  for (const size_t column : found) names.push_back(table_.header()[column]);
  throw DataError(table_.name() + " has several columns that may hold " + what + ": " + NamesForPeople(names),
                  "name the right one with " + flag);
}

void RequireDistinct(std::vector<size_t> columns, const TableReader& table, const std::string& what,
                     const std::string& flags) {
  std::ranges::sort(columns);
  if (std::ranges::adjacent_find(columns) == columns.end()) return;
  throw DataError(table.name() + ": one column is named as two of " + what, "name different ones with " + flags);
}

LabelCells LabelCellsOf(const TableReader& table, const std::string& label_column, const std::string& separator) {
  LabelCells cells{.separator = separator.empty() ? kLabelSeparator : separator};
  cells.are_lists = table.format() == TableFormat::kJsonLines && label_column.find(',') == std::string::npos;
  cells.by_column = separator.empty() && !cells.are_lists;
  if (!cells.by_column || !label_column.empty()) return cells;
  throw Error(ExitCode::kUsage, table.name() + " does not say where the labels of a row are",
              "give --label_separator for a column with several labels, or --label_column=A,B,C for a column of each "
              "label; JSON lines may have lists of labels");
}

std::string LabelsThatHold(std::span<const std::string> cells, std::span<const size_t> columns,
                           const TableReader& table, int64_t line) {
  constexpr std::string_view kHolds[] = {"1", "1.0", "true", "True", "TRUE"};
  constexpr std::string_view kDoesNot[] = {"0", "0.0", "false", "False", "FALSE"};
  std::string labels;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string& name = table.header()[columns[i]];
    const std::string_view cell = Stripped(cells[i]);
    if (std::ranges::find(kHolds, cell) != std::end(kHolds)) {
      labels += name + kLabelSeparator;
    } else if (std::ranges::find(kDoesNot, cell) == std::end(kDoesNot)) {
      table.Fail(line, "'" + Shown(name, 60) + "' is '" + Shown(cell, 60) + "', but a column of one label has 0 or 1",
                 "if a cell holds several labels, say what is between them with --label_separator");
    }
  }
  return labels;
}

}  // namespace dtrain::data
