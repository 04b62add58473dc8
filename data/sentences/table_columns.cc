#include "data/sentences/table_columns.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "data/error.h"
#include "data/formats/column_finder.h"

namespace dtrain::data {
namespace {

// The names that data sets use, in lower case.
constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
    {"sentence1", "sentence2"},   {"premise", "hypothesis"},     {"question1", "question2"}, {"question", "sentence"},
    {"question", "passage"},      {"text", "text_pair"},         {"text1", "text2"},         {"text_a", "text_b"},
    {"sentence_a", "sentence_b"}, {"sentence", "sentence_pair"}, {"#1 string", "#2 string"}};
constexpr std::string_view kTexts[] = {"text",    "sentence", "review",  "content", "comment",  "comment_text",
                                       "tweet",   "document", "message", "body",    "question", "sentence1",
                                       "premise", "headline", "query",   "input"};
constexpr std::string_view kQqpHeader[] = {"id", "qid1", "qid2", "question1", "question2", "is_duplicate"};

// The columns of the only known pair.
std::optional<std::pair<size_t, size_t>> KnownPair(const ColumnFinder& columns, const TableReader& table) {
  std::optional<std::pair<size_t, size_t>> pair;
  for (const auto& [text, other] : kPairs) {
    const auto first = columns.Find(text), second = columns.Find(other);
    if (!first || !second) continue;
    if (pair) {
      const auto& names = table.header();
      throw DataError(table.name() + " has several columns that may hold pairs: " +
                          NamesForPeople({names[pair->first], names[pair->second], names[*first], names[*second]}),
                      "name the right ones with --text_column and --text_pair_column");
    }
    pair = {*first, *second};
  }
  return pair;
}

// A line of CoLA's train.tsv: source, 0 or 1, * or nothing, the sentence.
bool IsCola(const std::vector<std::string>& first) {
  return first.size() == 4 && (first[1] == "0" || first[1] == "1") && (first[2].empty() || first[2] == "*");
}

}  // namespace

TableColumns ChooseColumns(TableReader& table, const ColumnNames& names, bool wants_label) {
  if (IsCola(table.header())) table.FirstLineIsData({"source", "label", "mark", "sentence"});
  if (std::ranges::equal(table.header(), kQqpHeader)) table.LeaveOutRaggedRows();
  const ColumnFinder columns(table);
  TableColumns chosen;
  std::vector<size_t> taken;
  if (!names.label.empty() && wants_label) {
    chosen.labels = columns.AllNamed(names.several_labels ? names.label : "", "--label_column");
    taken = chosen.labels;
    if (taken.empty()) taken.push_back(columns.Named(names.label, "--label_column"));
  }
  if (!names.pair.empty()) {
    chosen.pair = columns.Named(names.pair, "--text_pair_column");
    taken.push_back(*chosen.pair);
  }
  if (!names.text.empty()) {
    chosen.text = columns.Named(names.text, "--text_column");
  } else if (const auto pair = KnownPair(columns, table); pair && (!chosen.pair || *chosen.pair == pair->second)) {
    chosen.text = pair->first;
    chosen.pair = pair->second;
  } else {
    chosen.text = columns.Only(kTexts, taken, "texts", "--text_column");
  }
  taken.push_back(chosen.text);
  if (chosen.pair) taken.push_back(*chosen.pair);
  if (wants_label) {
    chosen.label = names.label.empty() ? columns.Only(kLabelColumns, taken, "labels", "--label_column") : taken.front();
    chosen.dash_is_no_label = chosen.labels.empty() && table.header()[*chosen.label] == "gold_label";
  }
  std::vector<size_t> all = chosen.labels;
  std::ranges::sort(all);
  const auto is_label = [&chosen](size_t column) { return std::ranges::count(chosen.labels, column) > 0; };
  if (std::ranges::adjacent_find(all) != all.end() || is_label(chosen.text) ||
      (chosen.pair && is_label(*chosen.pair)) || chosen.pair == chosen.text || chosen.label == chosen.text ||
      (chosen.label && chosen.label == chosen.pair)) {
    throw DataError(table.name() + ": one column is named as two of text, pair and label",
                    "name different ones with --text_column, --text_pair_column and --label_column");
  }
  return chosen;
}

std::vector<size_t> ColumnsToKeep(const TableReader& table, const std::string& which, const std::vector<size_t>& read) {
  std::vector<size_t> kept;
  if (which == "none") return kept;
  if (which == "all") {
    for (size_t column = 0; column < table.header().size(); ++column) kept.push_back(column);
  } else {
    kept = ColumnFinder(table).AllNamed(which, "--keep_columns");
  }
  std::erase_if(kept, [&read](size_t column) { return std::ranges::find(read, column) != read.end(); });
  return kept;
}

std::string ToText(const TableColumns& columns, const TableReader& table) {
  const auto& header = table.header();
  std::string text = "text " + header[columns.text];
  if (columns.pair) text += ", pair " + header[*columns.pair];
  if (columns.label && columns.labels.empty()) text += ", label " + header[*columns.label];
  for (const size_t column : columns.labels) text += ", label " + header[column];
  return text;
}

}  // namespace dtrain::data
