#include "data/sentences/sentence_set.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "data/error.h"

namespace dtrain::data {
namespace {

// The names that data sets use, in lower case.
constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
    {"sentence1", "sentence2"},   {"premise", "hypothesis"},     {"question1", "question2"}, {"question", "sentence"},
    {"question", "passage"},      {"text", "text_pair"},         {"text1", "text2"},         {"text_a", "text_b"},
    {"sentence_a", "sentence_b"}, {"sentence", "sentence_pair"}, {"#1 string", "#2 string"}};
constexpr std::pair<std::string_view, std::string_view> kAlike[] = {
    {"anchor", "positive"}, {"query", "positive"}, {"query", "pos"},       {"query", "passage"},
    {"query", "document"},  {"query", "answer"},   {"question", "answer"}, {"premise", "entailment"}};
constexpr std::string_view kNegatives[] = {"negative", "hard_negative", "neg", "contradiction"};  // and negative_1 …
constexpr std::string_view kScores[] = {
    "score", "scores", "label", "labels", "similarity", "similarity_score", "relatedness_score"};
constexpr std::string_view kTexts[] = {"text",    "sentence", "review",  "content", "comment",  "comment_text",
                                       "tweet",   "document", "message", "body",    "question", "sentence1",
                                       "premise", "headline", "query",   "input",   "anchor"};
constexpr std::string_view kQqpHeader[] = {"id", "qid1", "qid2", "question1", "question2", "is_duplicate"};

// The columns of the only one of the pairs that are known.
std::optional<std::pair<size_t, size_t>> KnownPair(
    const ColumnFinder& columns, const TableReader& table,
    std::span<const std::pair<std::string_view, std::string_view>> known) {
  std::optional<std::pair<size_t, size_t>> pair;
  for (const auto& [text, other] : known) {
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
  TableColumns chosen{.several_labels = names.several_labels};
  if (!names.label.empty() && wants_label) {
    chosen.labels = columns.AllNamed(names.several_labels ? names.label : "", "--label_column");
    if (chosen.labels.empty()) chosen.labels = {columns.Named(names.label, "--label_column")};
  }
  std::vector<size_t> taken = chosen.labels;
  if (!names.pair.empty()) {
    chosen.pair = columns.Named(names.pair, "--text_pair_column");
    taken.push_back(*chosen.pair);
  }
  if (!names.text.empty()) {
    chosen.text = columns.Named(names.text, "--text_column");
  } else if (const auto pair = KnownPair(columns, table, kPairs);
             pair && (!chosen.pair || *chosen.pair == pair->second)) {
    chosen.text = pair->first;
    chosen.pair = pair->second;
  } else {
    chosen.text = columns.Only(kTexts, taken, "texts", "--text_column");
  }
  taken.push_back(chosen.text);
  if (chosen.pair && names.pair.empty()) taken.push_back(*chosen.pair);
  if (wants_label && names.label.empty()) {
    chosen.labels = {columns.Only(kLabelColumns, taken, "labels", "--label_column")};
    taken.push_back(chosen.labels.front());
  }
  chosen.dash_is_no_label =
      wants_label && !chosen.several_labels && table.header()[chosen.labels.front()] == "gold_label";
  RequireDistinct(taken, table, "text, pair and label", "--text_column, --text_pair_column and --label_column");
  return chosen;
}

TableColumns ChooseTextColumns(const TableReader& table, const ColumnNames& names, std::optional<bool> scored) {
  const ColumnFinder columns(table);
  TableColumns chosen;
  if (names.text.empty() != names.pair.empty()) {
    throw DataError(table.name() + ": one column of two texts that are alike is named",
                    "name the other, too: --text_column and --text_pair_column");
  }
  if (names.text.empty()) {
    const auto alike = KnownPair(columns, table, kAlike), pair = alike ? alike : KnownPair(columns, table, kPairs);
    if (!pair) {
      throw DataError(table.name() + " has no columns that are known to hold two texts that are alike; it has " +
                          NamesForPeople(table.header()),
                      "name them with --text_column and --text_pair_column (the first line must hold the names)");
    }
    std::tie(chosen.text, chosen.pair) = *pair;
  } else {
    chosen.text = columns.Named(names.text, "--text_column");
    chosen.pair = columns.Named(names.pair, "--text_pair_column");
  }
  chosen.negatives =
      names.negatives.empty() ? columns.AllOf(kNegatives) : columns.AllNamed(names.negatives, "--negative_column");
  std::vector<size_t> taken = {chosen.text, *chosen.pair};
  taken.insert(taken.end(), chosen.negatives.begin(), chosen.negatives.end());
  if (scored == true && !chosen.negatives.empty()) {
    throw DataError(table.name() + " has negatives, of which a score of two texts says nothing",
                    "use --embedding_loss=contrastive, or leave the negatives out");
  }
  const auto has_score = [&] {
    return !names.label.empty() ||
           std::ranges::any_of(kScores, [&](auto name) { return columns.Find(name).has_value(); });
  };
  if (scored == true || (!scored && chosen.negatives.empty() && has_score())) {
    chosen.labels = {names.label.empty() ? columns.Only(kScores, taken, "scores", "--label_column")
                                         : columns.Named(names.label, "--label_column")};
    taken.push_back(chosen.labels.front());
  }
  RequireDistinct(taken, table, "text, pair, negative and score",
                  "--text_column, --text_pair_column, --negative_column and --label_column");
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
  for (const size_t column : columns.negatives) text += ", negative " + header[column];
  for (const size_t column : columns.labels) text += ", label " + header[column];
  return text;
}

}  // namespace dtrain::data
