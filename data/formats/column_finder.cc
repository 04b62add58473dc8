#include "data/formats/column_finder.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "data/error.h"
#include "data/formats/labels.h"
#include "data/joined.h"
#include "data/shown.h"
#include "data/text/text_lines.h"
#include "data/whole_number.h"

namespace dtrain::data {
namespace {

std::string LowerCase(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

}  // namespace

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
    throw DataError(table_.name() + " has no column '" + name + "'; it has " + NamesForPeople(header),
                    "name one of these with " + flag);
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

std::string LabelsThatHold(std::span<const std::string> cells, std::span<const size_t> columns,
                           const TableReader& table, int64_t line) {
  constexpr std::string_view kHolds[] = {"1", "1.0", "true", "True"}, kDoesNot[] = {"0", "0.0", "false", "False"};
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
